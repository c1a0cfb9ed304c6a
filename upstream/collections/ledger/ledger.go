// Package ledger contains the types that an indexer and a collection store exchange: the cursor of a store, and the changes
// by a range of blocks.
package ledger

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// Address is the address of an account on the chain's execution layer.
type Address [20]byte

// Hash is a word of the execution layer: a block's hash, or a dispute's id.
type Hash [32]byte

// String returns 0x and 40 hex digits in lower case.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// MarshalText returns the same text as String.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String returns 0x and 64 hex digits in lower case.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// ReadHex decodes 0x and two hex digits per byte of to. It reports whether s has this form.
func ReadHex(to []byte, s string) bool {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 2*len(to) {
		return false
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil
}

// A Cursor is the last block whose events a collection store has counted. It is zero for an empty store.
type Cursor struct {
	Chain int64 // the execution layer's chain id
	Block int64
	Hash  Hash
	Time  time.Time // of the block; UTC, in seconds

	Contracts Contracts // contracts whose events were counted; zero if unknown

	Incomplete bool // the store may lack logs; only a rebuild clears it
}

// Contracts are the contracts whose events are counted: IPAssetRegistry, LicensingModule and DisputeModule.
type Contracts struct{ Registry, Licensing, Disputes Address }

// Owners maps ids to their collections. The collection of an id never changes.
type Owners struct {
	IPs      map[Address]Address // by IP account
	Disputes map[Hash]Address    // by dispute id
}

// MaxCount is the maximum of counters, and the largest integer that JavaScript represents exactly. Events and stores use the
// same maximum, so counters do not depend on how blocks are grouped into tallies.
const MaxCount = 1<<53 - 1

// A Change holds the counts that a range of blocks adds to one collection.
type Change struct {
	Collection                                            Address
	Assets, Licenses, Raised, Cancelled, Judged, Resolved int64
	First, Last                                           time.Time // block times of the first and the last event
}

// A Tally holds all changes of a collection store by a range of blocks.
type Tally struct {
	Cursor  Cursor   // the last block of the range
	Changes []Change // one per collection with events, ascending by address
	Learned Owners   // owners that the store may not know yet

	OnlyEmpty bool // refuse a store with collections, which an import may have loaded
}

// ErrCursorMoved is the error if a store's cursor is not at the beginning of a Tally, because another indexer or an import
// was faster. The Tally was not applied.
var ErrCursorMoved = errors.New("the store's cursor has moved")
