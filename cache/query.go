package cache

import (
	"time"

	"github.com/tipcache/tipcache/cache/freshness"
)

// Policy says how long an entry may be served, see package freshness.
type Policy = freshness.Policy

// A State is the condition under which an entry may be served.
type State = freshness.State

// The states, best first.
const (
	Fresh        = freshness.Fresh
	Stale        = freshness.Stale
	StaleIfError = freshness.StaleIfError
	Expired      = freshness.Expired
)

// Query is one query to the cache.
type Query struct {
	Key       string
	Policy    Policy
	Client    string        // has a share of Options.MaxWaiters; "" for many clients, which have none
	Interval  time.Duration // between blocks; 0 if unknown
	Tip       int64         // newest known block; 0 for none, which measures freshness in seconds
	MaxHeight int64         // entries above it are Expired and replaced, because no block can have this height yet; 0 means no limit
	MinHeight int64         // entries below it are Expired for this caller (read your writes), unless they never change; 0 means no limit
	Confined  bool          // entries of all confined queries use at most a quarter of memory
	Ahead     bool          // allows reading ahead with this Policy if the key is requested often, see ReadAhead
	For       Purpose       // purpose of the flight, if this query begins one
}

// Outcome says how a query was answered, as in metrics and logs. The zero Outcome is an error.
type Outcome string

// The outcomes.
const (
	Hit        Outcome = "hit"         // a fresh entry was served
	StaleHit   Outcome = "stale"       // a stale entry was served, because a newer one was not read in time
	Miss       Outcome = "miss"        // the origin was read
	StaleError Outcome = "stale_error" // the origin failed and an older entry was served
)

var outcomes = [...]Outcome{"", Hit, StaleHit, Miss, StaleError}

// Stores of an entry.
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
	Store     string // "memory", "shared", or "" for the origin
	Forward   string // why the origin was read, as in RFC 9211: "uri-miss", "stale", "request" (fresh, but too old for this caller); "" if it was not read
	Collapsed bool   // Entry is from another caller's flight
	Err       error  // the origin's failure if Outcome is StaleError
}
