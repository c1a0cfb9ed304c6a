// Package freshness judges stored answers: whether one may be served for a query, whether it may stand in for a newer one that
// cannot be read, and which of two is newer. All functions are pure: they depend on the answer's stamp, the query's requirement
// and the time.
//
// Memory, flights, inspections and callers of the shared store all use this package, so that they agree. Only the scripts
// of the shared store implement [Newer] again; one test covers both.
package freshness

import (
	"net/http"
	"time"
)

// A State is the condition under which an answer may be served.
type State int

// The states, best first.
const (
	Fresh        State = iota // serve it
	Stale                     // serve it if reading a newer one takes too long
	StaleIfError              // serve it only if the origin fails
	Expired                   // treat it as absent
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"fresh", "stale", "stale_if_error", "expired"}[s]
}

// Clock returns the time. It is called only if the verdict depends on it: a fresh answer from the newest block
// needs no clock.
type Clock func() time.Time

// Stamp holds what the verdict on a stored answer depends on.
type Stamp struct {
	Height  int64     // newest block at which it is known to be valid; 0 if unknown or not chain data
	ReadAt  time.Time // when the origin last confirmed it
	Expires time.Time // after this time it is Expired, or only Stale if it is Lasting and the policy has StalePastExpires; zero means never
	Status  int       // HTTP status
	Lasting bool      // Policy.StalePastExpires applies to it

	Provisional bool // Policy.Immutable does not apply to it
}

// PastExpires reports whether the time Expires has passed. Such an answer is not fresh under any policy.
func (s *Stamp) PastExpires(now Clock) bool {
	return !s.Expires.IsZero() && !now().Before(s.Expires)
}

// Newer reports whether s is at least as new as old. If both heights are known and differ, they decide, and
// otherwise the time of reading. Of two equal answers the last one is newer.
func Newer(s, old *Stamp) bool {
	if s.Height > 0 && old.Height > 0 && s.Height != old.Height {
		return s.Height > old.Height
	}
	return !s.ReadAt.Before(old.ReadAt)
}

// Policy says how long an answer may be served. Its age is measured in blocks if the tip and the answer's height
// are known, and otherwise in seconds since it was read. All limits are inclusive ages, and must not
// decrease in the order of the fields. The operator sets those with a key.
type Policy struct {
	FreshBlocks  int64         `yaml:"fresh_blocks" reload:"true" doc:"Number of blocks that an entry may be behind the tip and still be fresh."`
	StaleBlocks  int64         `yaml:"stale_blocks" reload:"true" doc:"Number of blocks behind the tip up to which an entry is served if the refresh takes longer than a quarter of the block time (500ms at most)."`
	ErrorBlocks  int64         `yaml:"error_blocks" reload:"true" doc:"Number of blocks behind the tip up to which an entry is served while the node fails. stale_if_error applies, too."`
	Fresh        time.Duration `yaml:"fresh" reload:"true" doc:"How long an entry is fresh while no tip is known."`
	Stale        time.Duration `yaml:"stale" reload:"true" doc:"How long an entry is served while no tip is known and the refresh takes longer than 100ms."`
	StaleIfError time.Duration `yaml:"stale_if_error" reload:"true" doc:"Maximum age of an entry that is served while the node fails, whether or not a tip is known."`

	Immutable        bool          `yaml:"-"` // an answer at a fixed height: always fresh
	ImmutableIfOK    bool          `yaml:"-"` // restricts Immutable to answers with status 200
	StalePastExpires bool          `yaml:"-"` // a lasting answer may be served stale after Expires
	Keep             time.Duration `yaml:"-"` // expiry in the shared store, at least as long as all limits; 0 means not stored there
}

// ServesPastExpires reports whether an answer may be served after its Expires.
func (p *Policy) ServesPastExpires(s *Stamp) bool {
	return s.Expires.IsZero() || p.StalePastExpires && s.Lasting
}

// IsImmutable reports whether an answer never changes.
func (p *Policy) IsImmutable(s *Stamp) bool {
	return p.Immutable && !s.Provisional && (!p.ImmutableIfOK || s.Status == http.StatusOK)
}

// KeepFor returns how long the shared store keeps an answer: Keep, or less if it expires earlier.
func (p *Policy) KeepFor(s *Stamp, now Clock) time.Duration {
	if p.ServesPastExpires(s) {
		return p.Keep
	}
	return min(p.Keep, s.Expires.Sub(now()))
}

// Requirement is what a query requires of an answer.
type Requirement struct {
	Policy    *Policy
	Tip       int64 // newest known block; 0 for none, which measures age in seconds
	MinHeight int64 // answers below it are Expired, unless they never change; 0 means no limit
	MaxHeight int64 // answers above it are not believed and Expired, because no block can have this height yet; 0 means no limit
}

// Judge returns the state of an answer. Blocks above r.Tip do not age an answer. If the tip is known,
// an answer of unknown height may only be served if the origin fails, because it may be from any earlier block.
func (r *Requirement) Judge(s *Stamp, now Clock) State {
	switch {
	case !r.within(s):
		return Expired
	case !s.PastExpires(now):
		return r.byAge(s, now)
	case r.Policy.ServesPastExpires(s):
		return max(Stale, r.byAge(s, now))
	default:
		return Expired
	}
}

// StandsIn reports whether an answer of any age may be served for an origin that has nothing better.
func (r *Requirement) StandsIn(s *Stamp, now Clock) bool {
	return r.within(s) && (!s.PastExpires(now) || r.Policy.ServesPastExpires(s))
}

// Believes reports whether the chain can have reached height.
func (r *Requirement) Believes(height int64) bool { return r.MaxHeight <= 0 || height <= r.MaxHeight }

func (r *Requirement) within(s *Stamp) bool {
	return (s.Height >= r.MinHeight || r.Policy.IsImmutable(s)) && r.Believes(s.Height)
}

// Replaces reports whether s replaces old in a store.
func (r *Requirement) Replaces(s, old *Stamp) bool { return Newer(s, old) || !r.Believes(old.Height) }

// FallsBehind reports whether to serve the cached answer instead of the origin's answer s: s is not fresh, and from a
// lower block, because the origin is behind the tip.
func (r *Requirement) FallsBehind(s, cached *Stamp, now Clock) bool {
	return r.StandsIn(cached, now) && 0 < s.Height && s.Height < cached.Height && r.Judge(s, now) != Fresh
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
