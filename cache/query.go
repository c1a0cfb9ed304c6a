package cache

import (
	"time"

	"github.com/tipcache/tipcache/cache/freshness"
)

// Policy says how long an entry serves, as package freshness judges it.
type Policy = freshness.Policy

// State is what an entry is good for.
type State = freshness.State

// The states, best first.
const (
	Fresh        = freshness.Fresh
	Stale        = freshness.Stale
	StaleIfError = freshness.StaleIfError
	Expired      = freshness.Expired
)

// Query is one question to the cache.
type Query struct {
	Key       string
	Policy    Policy
	Interval  time.Duration // between blocks, 0 = unknown
	Tip       int64         // newest block known, 0 = none: seconds count
	MaxHeight int64         // entries above it are Expired, and replaced: no block can have come so far; 0 = none are
	MinHeight int64         // entries below it are Expired for this caller (read your writes); 0 = none
	Confined  bool          // its entries take at most a quarter of memory, all confined queries together
	Audit     bool          // Options.Taken is told of each entry that is new to this replica
	Ahead     bool          // it may be read ahead, if it is asked for in every block
	Queue     Queue         // where a read waits for its turn; nil: how long it takes is known by those before it that had none
}

// Outcome says how a query was answered. The zero Outcome is that of an error.
type Outcome int

// The outcomes.
const (
	Hit        Outcome = iota + 1 // a fresh entry was at hand
	StaleHit                      // a stale entry was at hand, and a newer one did not come in time
	Miss                          // the origin was asked
	StaleError                    // the origin failed; an older entry stands in
)

// String gives the outcome as metrics and logs have it.
func (o Outcome) String() string {
	return [...]string{"error", "hit", "stale", "miss", "stale_error"}[o]
}

// The stores an entry can be found in.
const (
	fromOrigin = ""
	inMemory   = "memory"
	inShared   = "shared"
)

var stores = [...]string{fromOrigin, inMemory, inShared}

// Result is the answer to a query.
type Result struct {
	Entry     *Entry
	Outcome   Outcome
	Store     string // where Entry was found: "memory" or "shared"; "" when it comes from the origin
	Forward   string // why the origin was asked, as RFC 9211 says it: "uri-miss", "stale", "request" (it was fresh, but not new enough for this caller); "" when it was not
	Collapsed bool   // Entry comes from another caller's flight
	Err       error  // what the origin failed with, when Outcome is StaleError
}
