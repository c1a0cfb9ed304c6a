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
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
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

// check refuses what no store should hold. Errors begin with the documented name of the field.
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
func IsAddress(s string) bool { return ledger.ReadHex(new(ledger.Address)[:], s) }

// MaxText bounds each string of a description, in bytes. A contract says of
// itself what it likes, megabytes too, and shares its page with others.
const MaxText = 4 << 10

// CutText returns the beginning of a text, no more than MaxText. It is for prose: a URL or an
// identifier that is cut is another one, and is to be left out instead.
func CutText(s string) string {
	if len(s) > MaxText {
		return strings.ToValidUTF8(s[:MaxText], "") // half a character at its end goes, too
	}
	return s
}
