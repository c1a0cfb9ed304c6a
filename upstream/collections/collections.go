// Package collections reads the collection store: a table of collections and
// their counters, kept in SQLite, in PostgreSQL or behind another server that
// speaks the same API.
//
// store.go answers queries and takes imports, index.go takes what an indexer
// counts. Both leave the keeping to a Driver: those of packages sqlstore and
// apistore, of which package drivers makes the one that a URL names. Whatever
// keeps it, a store behaves the same: one conformance suite is run by all three.
package collections

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Collection is a contract whose tokens are registered as IP assets. Every
// counter is cumulative: it never goes down.
type Collection struct {
	Address               string    `json:"collectionAddress"`     // 0x and 40 hex digits, in the case it was stored in
	AssetCount            int64     `json:"assetCount"`            // IP assets registered
	LicensesCount         int64     `json:"licensesCount"`         // license tokens minted
	RaisedDisputeCount    int64     `json:"raisedDisputeCount"`    // disputes raised
	CancelledDisputeCount int64     `json:"cancelledDisputeCount"` // disputes withdrawn
	JudgedDisputeCount    int64     `json:"judgedDisputeCount"`    // disputes decided, whatever the decision
	ResolvedDisputeCount  int64     `json:"resolvedDisputeCount"`  // disputes settled after a judgement
	CreatedAt             time.Time `json:"createdAt"`             // block time of the first registration; UTC, microseconds
	UpdatedAt             time.Time `json:"updatedAt"`             // block time of the last change; UTC, microseconds

	// Metadata is the documented collectionMetadata object if the store itself
	// knows it, else nil. Only the http driver does; Import ignores it.
	Metadata json.RawMessage `json:"collectionMetadata"`
}

// OrderBy is the column a page is ordered by.
type OrderBy int

// The columns, in the order of the documented interface.
const (
	UpdatedAt OrderBy = iota
	AssetCount
	LicensesCount
)

// Bounds and defaults of a Query, those of the documented interface.
const (
	DefaultLimit = 20
	MaxLimit     = 200
	MaxAddresses = 200
)

// A Query selects one page. The zero value asks for the least recently updated
// DefaultLimit collections.
//
// The order is total: collections that tie in the column follow one another by
// ascending lower-case address, whichever the direction, so that pages
// neither overlap nor skip.
type Query struct {
	OrderBy OrderBy
	Desc    bool // greatest, or most recent, first
	Limit   int  // 1 to MaxLimit; 0 means DefaultLimit
	Offset  int  // collections to skip, at least 0

	// Addresses keeps only these collections; their case does not matter and an
	// unknown one is no error. At most MaxAddresses; empty keeps all.
	Addresses []string

	MinAssets, MaxAssets *int64 // inclusive bounds of AssetCount; nil for none
}

// A Page is the answer to a Query.
type Page struct {
	Items []Collection // never nil
	Total int64        // how many collections match on all pages together

	// Generation is the store's change counter, read at the same moment as the
	// items. It differs after every change and never goes down; 0 is unknown.
	Generation int64
}

// fields are the documented names of a collection's fields.
var fields = [...]string{
	"collectionAddress", "assetCount", "licensesCount", "raisedDisputeCount", "cancelledDisputeCount",
	"judgedDisputeCount", "resolvedDisputeCount", "createdAt", "updatedAt", "collectionMetadata",
}

// targets are the values of the fields, nil for the metadata.
func (c *Collection) targets() [len(fields)]any {
	return [...]any{
		&c.Address, &c.AssetCount, &c.LicensesCount, &c.RaisedDisputeCount, &c.CancelledDisputeCount,
		&c.JudgedDisputeCount, &c.ResolvedDisputeCount, &c.CreatedAt, &c.UpdatedAt, nil,
	}
}

// check refuses what no store should hold. Errors begin with the documented
// name of the field.
func (c *Collection) check() error {
	if !IsAddress(c.Address) {
		return errors.New("collectionAddress: must be 0x and 40 hexadecimal digits")
	}
	for i, target := range c.targets() {
		if n, ok := target.(*int64); ok && *n < 0 {
			return fmt.Errorf("%s: must not be negative", fields[i])
		}
	}
	if c.CreatedAt.IsZero() || c.UpdatedAt.IsZero() {
		return errors.New("createdAt, updatedAt: must be set")
	}
	if c.CreatedAt.After(c.UpdatedAt) {
		return errors.New("createdAt: must not be after updatedAt")
	}
	return nil
}

// Key is how stores name a collection: its address in lower case.
func (c *Collection) Key() string { return strings.ToLower(c.Address) }

// IsAddress reports whether a text is 0x and 40 hex digits.
func IsAddress(s string) bool {
	if len(s) != 42 || s[0] != '0' || s[1] != 'x' {
		return false
	}
	for _, b := range []byte(s[2:]) {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'f') {
			return false
		}
	}
	return true
}

// normal fills in defaults and refuses what is out of bounds.
func (q Query) normal() (Query, error) {
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	switch {
	case q.OrderBy < UpdatedAt || q.OrderBy > LicensesCount:
		return q, fmt.Errorf("collections: unknown order %d", q.OrderBy)
	case q.Limit < 0 || q.Limit > MaxLimit:
		return q, fmt.Errorf("collections: limit %d is not within 1..%d", q.Limit, MaxLimit)
	case q.Offset < 0:
		return q, fmt.Errorf("collections: offset %d is negative", q.Offset)
	case len(q.Addresses) > MaxAddresses:
		return q, fmt.Errorf("collections: %d addresses are more than %d", len(q.Addresses), MaxAddresses)
	}
	return q, nil
}

// Known returns those of the texts in Addresses that are addresses. Nothing is
// stored under the others.
func (q Query) Known() []string {
	return slices.DeleteFunc(slices.Clone(q.Addresses), func(s string) bool { return !IsAddress(s) })
}

// Keys returns the known addresses as stores name them.
func (q Query) Keys() []string {
	keys := []string{}
	for _, address := range q.Known() {
		keys = append(keys, strings.ToLower(address))
	}
	return keys
}

// Ranged reports whether the query bounds the asset count.
func (q Query) Ranged() bool { return q.MinAssets != nil || q.MaxAssets != nil }
