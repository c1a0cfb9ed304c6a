package cache

import (
	"net/http"
	"time"
)

// State is what an entry is good for.
type State int

// The states, best first.
const (
	Fresh        State = iota // serve it
	Stale                     // serve it when reading it anew takes too long
	StaleIfError              // serve it only when the origin fails
	Expired                   // as good as absent
)

// String gives the state in one word.
func (s State) String() string {
	return [...]string{"fresh", "stale", "stale_if_error", "expired"}[s]
}

// Policy says how long an entry serves. Its age is measured in blocks where
// the caller knows the tip and the entry its height, else in seconds since it
// was read. All bounds are inclusive and count from the same beginning, so they
// are expected to rise in the order they are written in.
type Policy struct {
	FreshBlocks, StaleBlocks, ErrorBlocks int64         // bounds of Fresh, Stale and StaleIfError in blocks behind the tip
	Fresh, Stale, StaleIfError            time.Duration // the same in seconds; StaleIfError bounds that state in block mode as well
	Immutable                             bool          // an answer at a fixed height: fresh for as long as it is kept
	ImmutableIfOK                         bool          // of Immutable: an answer with the status 200 alone; others age
	PastExpiry                            bool          // an answer whose Source is known lives on after its Expires, which bounds Fresh alone
	Keep                                  time.Duration // expiry of the key in the shared store, at least as long as all the above; 0 = not stored there
}

// State judges an entry for a caller to whom tip is the newest block, 0 for
// unknown. A block nobody tells of cannot make an entry old, and an entry of
// unknown height serves a caller who knows the tip only when the origin fails: it
// may be of any earlier block.
func (p Policy) State(e *Entry, tip int64, now time.Time) State {
	switch {
	case !e.expired(now):
		return p.byAge(e, tip, now)
	case p.Outlives(e):
		return max(Stale, p.byAge(e, tip, now))
	default:
		return Expired
	}
}

// Outlives tells whether an entry may serve after its Expires.
func (p Policy) Outlives(e *Entry) bool { return e.Expires.IsZero() || p.PastExpiry && e.Source != 0 }

// keep is how long an entry stays in the shared store: no longer than it can serve.
func (p Policy) keep(e *Entry, now time.Time) time.Duration {
	if p.Outlives(e) {
		return p.Keep
	}
	return min(p.Keep, e.Expires.Sub(now))
}

func (p Policy) byAge(e *Entry, tip int64, now time.Time) State {
	switch {
	case p.IsImmutable(e):
		return Fresh
	case tip > 0 && e.Height > 0:
		return p.byBlocks(tip-e.Height, now.Sub(e.ReadAt))
	case tip > 0:
		return max(StaleIfError, p.bySeconds(now.Sub(e.ReadAt)))
	default:
		return p.bySeconds(now.Sub(e.ReadAt))
	}
}

// IsImmutable tells whether an entry never changes.
func (p Policy) IsImmutable(e *Entry) bool {
	return p.Immutable && (!p.ImmutableIfOK || e.Status == http.StatusOK)
}

// expired tells whether e is past its Expires, and so not fresh whatever a policy says.
func (e *Entry) expired(now time.Time) bool {
	return !e.Expires.IsZero() && !now.Before(e.Expires)
}

func (p Policy) byBlocks(behind int64, age time.Duration) State {
	switch {
	case behind <= p.FreshBlocks:
		return Fresh
	case behind <= p.StaleBlocks:
		return Stale
	case behind <= p.ErrorBlocks && age <= p.StaleIfError:
		return StaleIfError
	default:
		return Expired
	}
}

func (p Policy) bySeconds(age time.Duration) State {
	switch {
	case age <= p.Fresh:
		return Fresh
	case age <= p.Stale:
		return Stale
	case age <= p.StaleIfError:
		return StaleIfError
	default:
		return Expired
	}
}

// Query is one question to the cache.
type Query struct {
	Key          string
	LatencyClass int // reads of one class, 0 to 7, take about as long as each other
	Policy       Policy
	Interval     time.Duration // between blocks, 0 = unknown
	Tip          int64         // newest block known, 0 = none: seconds count
	MaxHeight    int64         // entries above it are Expired, and replaced: no block can have come so far; 0 = none are
	MinHeight    int64         // entries below it are Expired for this caller (read your writes); 0 = none
	Audit        bool          // Options.Taken is told of what is taken for it
	Ahead        bool          // it may be read ahead, if it is asked for in every block
	Queue        Queue         // where a read waits for its turn; nil: how long it takes is known by those before it
}

// state judges a slot of memory, which may be nil.
func (q *Query) state(s *slot, now time.Time) State {
	if s == nil || s.entry.Height < q.MinHeight || q.above(s.entry) {
		return Expired
	}
	return q.Policy.State(s.entry, q.Tip, now)
}

// above tells whether e is above what can be believed.
func (q *Query) above(e *Entry) bool { return q.MaxHeight > 0 && e.Height > q.MaxHeight }

// usableAtAnyAge tells whether a slot can stand in however old it is.
func (q *Query) usableAtAnyAge(s *slot, now time.Time) bool {
	return s != nil && (!s.entry.expired(now) || q.Policy.Outlives(s.entry)) && s.entry.Height >= q.MinHeight && !q.above(s.entry)
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
