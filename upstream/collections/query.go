package collections

import (
	"fmt"
	"slices"
	"strings"
)

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

// A Query selects one page. The zero value asks for the least recently updated DefaultLimit
// collections. Collections that tie in the column follow one another by ascending lower-case
// address, whichever the direction, so that pages neither overlap nor skip.
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

// Known returns those in Addresses that are addresses: nothing is stored under the others.
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
