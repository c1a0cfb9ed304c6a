// Package ledger holds what an indexer and a collection store tell each other:
// how far a store has come, and what a range of blocks adds to it.
package ledger

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// Address is an account of the chain's execution layer.
type Address [20]byte

// Hash is a word of the execution layer: a block's hash, or a dispute's id.
type Hash [32]byte

// String is 0x and 40 hex digits in lower case.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// MarshalText gives what String does.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String is 0x and 64 hex digits in lower case.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// ReadHex reads 0x and twice as many digits, of any case, as there are bytes, if the text is that.
func ReadHex(to []byte, s string) bool {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 2*len(to) {
		return false
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil
}

// A Cursor names the last block whose events a collection store holds. The
// zero Cursor is that of a store that holds none.
type Cursor struct {
	Chain int64 // the execution layer's chain id
	Block int64
	Hash  Hash
	Time  time.Time // the block's; UTC, seconds

	Contracts Contracts // whose events were counted; zero where a store does not remember them

	Incomplete bool // the store may lack logs; only a rebuild clears it
}

// Contracts are those whose events are counted: IPAssetRegistry, LicensingModule and
// DisputeModule.
type Contracts struct{ Registry, Licensing, Disputes Address }

// Owners say which collection an id belongs to. Once known it never changes.
type Owners struct {
	IPs      map[Address]Address // by IP account
	Disputes map[Hash]Address    // by dispute id
}

// MaxCount is where counting ends, the largest number that clients in JavaScript
// read as it is: a counter stays there. Events and stores keep to the same bound,
// and so no counter depends on how blocks are grouped into tallies.
const MaxCount = 1<<53 - 1

// A Change is what a range of blocks adds to one collection.
type Change struct {
	Collection                                            Address
	Assets, Licenses, Raised, Cancelled, Judged, Resolved int64
	First, Last                                           time.Time // block times of the first and the last event
}

// A Tally is all that a range of blocks changes in a collection store.
type Tally struct {
	Cursor  Cursor   // the last block of the range
	Changes []Change // one for each collection with events, ascending by address
	Learned Owners   // of ids that the store may not know yet
}

// ErrCursorMoved says that a store is no longer where a Tally begins: another
// indexer was faster. Nothing of the Tally was taken over.
var ErrCursorMoved = errors.New("the store's cursor has moved")
