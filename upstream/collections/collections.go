// Package collections provides the collection store: collections and their counters in SQLite, in PostgreSQL or behind
// another server with the same API.
//
// store.go contains queries and imports, index.go the methods for indexers. Both use a Driver of package sqlstore or
// apistore. Package drivers opens the driver for a URL. All drivers pass the same conformance suite.
package collections

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A Collection is a contract whose tokens are registered as IP assets. Its counters never decrease. The tags also document
// the API, which lists the fields in this order.
type Collection struct {
	Address               string    `json:"collectionAddress"` // 0x and 40 hex digits, in the case it was stored in
	AssetCount            int64     `json:"assetCount" doc:"Number of registered IP assets."`
	LicensesCount         int64     `json:"licensesCount" doc:"Number of minted license tokens."`
	ResolvedDisputeCount  int64     `json:"resolvedDisputeCount" doc:"Number of disputes settled after a judgement."`
	CancelledDisputeCount int64     `json:"cancelledDisputeCount" doc:"Number of withdrawn disputes."`
	RaisedDisputeCount    int64     `json:"raisedDisputeCount" doc:"Number of raised disputes."`
	JudgedDisputeCount    int64     `json:"judgedDisputeCount" doc:"Number of decided disputes."`
	UpdatedAt             time.Time `json:"updatedAt" doc:"Time of the last change."`        // of the block; UTC, microseconds
	CreatedAt             time.Time `json:"createdAt" doc:"Time of the first registration."` // of the block; UTC, microseconds
	// Metadata is nil in a store, except that of the http driver.
	Metadata json.RawMessage `json:"collectionMetadata" doc:"Metadata of the collection. Empty if none is known."`
}

// fields are the documented names of a collection's fields.
var fields = [...]string{
	"collectionAddress", "assetCount", "licensesCount", "raisedDisputeCount", "cancelledDisputeCount",
	"judgedDisputeCount", "resolvedDisputeCount", "createdAt", "updatedAt", "collectionMetadata",
}

// targets returns pointers to the fields.
func (c *Collection) targets() [len(fields)]any {
	return [...]any{
		&c.Address, &c.AssetCount, &c.LicensesCount, &c.RaisedDisputeCount, &c.CancelledDisputeCount,
		&c.JudgedDisputeCount, &c.ResolvedDisputeCount, &c.CreatedAt, &c.UpdatedAt, &c.Metadata,
	}
}

// check returns an error for a collection that cannot be stored. The error begins with the documented name of the field.
func (c *Collection) check() error {
	if err := c.checkFields(); err != nil {
		return err
	}
	if c.CreatedAt.After(c.UpdatedAt) {
		return errors.New("createdAt: must not be after updatedAt")
	}
	return nil
}

// checkFields checks each field by itself.
func (c *Collection) checkFields() error {
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
	if !isTime(c.CreatedAt) || !isTime(c.UpdatedAt) {
		return errors.New("createdAt, updatedAt: must be in the years 1 to 9999 in UTC")
	}
	return nil
}

// Key returns the key of the collection in stores: its address in lower case.
func (c *Collection) Key() string { return strings.ToLower(c.Address) }

// IsAddress reports whether a text is 0x and 40 hex digits.
func IsAddress(s string) bool { return ledger.ReadHex(new(ledger.Address)[:], s) }

// isTime reports whether a time is in the years 1 to 9999 in UTC, so that JSON and all databases can represent it.
func isTime(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}

// MaxText is the maximum length of each string of a description in bytes. Contracts may return megabytes.
const MaxText = 4 << 10

// CutText truncates a text to MaxText. It is meant for prose. URLs and identifiers must be omitted instead, because a
// truncated one is wrong.
func CutText(s string) string {
	if len(s) > MaxText {
		return strings.ToValidUTF8(s[:MaxText], "") // drops an incomplete character at the end
	}
	return s
}
