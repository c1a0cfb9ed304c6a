// Package freshness judges stored answers: whether one is the answer to a query,
// whether it may stand in for a newer one, and which of two is newer. All of it is
// pure: what is known of an answer, what a query requires and the time go in, a
// verdict comes out.
//
// Memory, flights, inspections and the shared store's callers ask here, so that an
// answer is fresh for all of them or for none. The scripts of the shared store alone
// order two answers on their own, as [Newer] does; one table tests both.
package freshness

import (
	"net/http"
	"time"
)

// State is what an answer is good for.
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

// A Clock tells the time, where a verdict depends on it: a fresh answer of the newest block
// is found without.
type Clock func() time.Time

// A Stamp is what is known of a stored answer beside its content.
type Stamp struct {
	Height  int64     // newest block it is known to hold at; 0 = unknown, or not chain data
	ReadAt  time.Time // when the origin last said so
	Expires time.Time // from then on absent, or where the policy says PastExpiry not fresh; zero = the policy alone decides
	Status  int       // of HTTP
	Lasting bool      // it says something beyond its Expires
}

// Expired tells whether the answer is past its Expires, and so not fresh whatever a policy says.
func (s *Stamp) Expired(now Clock) bool {
	return !s.Expires.IsZero() && !now().Before(s.Expires)
}

// Newer orders two answers to one query. Heights decide where both are known
// and differ, else the time of reading: an answer of unknown height can only be
// placed by its time. An answer is newer than its equal, so the last one stays.
func Newer(s, old *Stamp) bool {
	if s.Height > 0 && old.Height > 0 && s.Height != old.Height {
		return s.Height > old.Height
	}
	return !s.ReadAt.Before(old.ReadAt)
}

// Policy says how long an answer serves. Its age is measured in blocks where
// the caller knows the tip and the answer its height, else in seconds since it
// was read. All bounds are inclusive and count from the same beginning, so they
// are expected to rise in the order they are written in.
type Policy struct {
	FreshBlocks, StaleBlocks, ErrorBlocks int64         // bounds of Fresh, Stale and StaleIfError in blocks behind the tip
	Fresh, Stale, StaleIfError            time.Duration // the same in seconds; StaleIfError bounds that state in block mode as well
	Immutable                             bool          // an answer at a fixed height: fresh for as long as it is kept
	ImmutableIfOK                         bool          // of Immutable: an answer with the status 200 alone; others age
	PastExpiry                            bool          // a lasting answer lives on after its Expires, which bounds Fresh alone
	Keep                                  time.Duration // expiry of the key in the shared store, at least as long as all the above; 0 = not stored there
}

// Outlives tells whether an answer may serve after its Expires.
func (p *Policy) Outlives(s *Stamp) bool { return s.Expires.IsZero() || p.PastExpiry && s.Lasting }

// IsImmutable tells whether an answer never changes.
func (p *Policy) IsImmutable(s *Stamp) bool {
	return p.Immutable && (!p.ImmutableIfOK || s.Status == http.StatusOK)
}

// KeepFor is how long an answer stays in the shared store: no longer than it can serve.
func (p *Policy) KeepFor(s *Stamp, now Clock) time.Duration {
	if p.Outlives(s) {
		return p.Keep
	}
	return min(p.Keep, s.Expires.Sub(now()))
}

// A Requirement is what a query requires of an answer.
type Requirement struct {
	Policy    *Policy
	Tip       int64 // newest block known, 0 = none: seconds count
	MinHeight int64 // answers below it are Expired; 0 = none are
	MaxHeight int64 // answers above it are not believed, and Expired: no block can have come so far; 0 = none are
}

// Judge says what an answer is good for. A block of which the caller does not know
// cannot make an answer old. An answer of unknown height serves a caller that knows
// the tip only when the origin fails: it may be of any earlier block.
func (r *Requirement) Judge(s *Stamp, now Clock) State {
	switch {
	case !r.within(s):
		return Expired
	case !s.Expired(now):
		return r.byAge(s, now)
	case r.Policy.Outlives(s):
		return max(Stale, r.byAge(s, now))
	default:
		return Expired
	}
}

// StandsIn tells whether an answer may stand in, however old it is, for an origin
// that has nothing better.
func (r *Requirement) StandsIn(s *Stamp, now Clock) bool {
	return r.within(s) && (!s.Expired(now) || r.Policy.Outlives(s))
}

// Believes tells whether a block can have come as far as height.
func (r *Requirement) Believes(height int64) bool { return r.MaxHeight <= 0 || height <= r.MaxHeight }

func (r *Requirement) within(s *Stamp) bool { return s.Height >= r.MinHeight && r.Believes(s.Height) }

// Replaces tells whether s takes the place of old in a store.
func (r *Requirement) Replaces(s, old *Stamp) bool { return Newer(s, old) || !r.Believes(old.Height) }

// FallsBehind tells whether the origin's answer s is of a lower block than the answer
// at hand, which may stand in, and too old itself: the origin is behind the tip.
func (r *Requirement) FallsBehind(s, atHand *Stamp, now Clock) bool {
	return r.StandsIn(atHand, now) && 0 < s.Height && s.Height < atHand.Height && r.Judge(s, now) != Fresh
}

func (r *Requirement) byAge(s *Stamp, now Clock) State {
	p := r.Policy
	switch {
	case p.IsImmutable(s):
		return Fresh
	case r.Tip > 0 && s.Height > 0:
		return p.byBlocks(r.Tip-s.Height, s, now)
	case r.Tip > 0:
		return max(StaleIfError, p.bySeconds(now().Sub(s.ReadAt)))
	default:
		return p.bySeconds(now().Sub(s.ReadAt))
	}
}

func (p *Policy) byBlocks(behind int64, s *Stamp, now Clock) State {
	switch {
	case behind <= p.FreshBlocks:
		return Fresh
	case behind <= p.StaleBlocks:
		return Stale
	case behind <= p.ErrorBlocks && now().Sub(s.ReadAt) <= p.StaleIfError:
		return StaleIfError
	default:
		return Expired
	}
}

func (p *Policy) bySeconds(age time.Duration) State {
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
