package proxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// reasoning turns what was found in the stores into sentences.
type reasoning struct {
	q      cache.Query
	found  cache.Inspection
	origin string // the node or the store
	now    time.Time
}

// sentence says what a request comes to, and why.
func (r reasoning) sentence() string {
	memory, shared := r.tells("Memory", r.found.Memory), r.tells("Redis", r.found.Shared)
	at := memory
	if r.found.Store != "memory" {
		at = memory + " " + shared
	}
	switch r.found.Forecast {
	case cache.Hit:
		return at + " So it is served as it is."
	case cache.StaleHit:
		at += " So it is served at once, and " + r.origin + " is asked anew in the background."
		switch {
		case r.found.Renewing:
			at += " That is under way."
		case r.found.LastFailure != nil:
			at += fmt.Sprintf(" The last try failed: %v.", r.found.LastFailure)
		}
		return at
	case cache.StaleError:
		return fmt.Sprintf("%s The last try failed (%v), so nobody waits for %s: the answer stands in, and the next try is in the background.", at, r.found.LastFailure, r.origin)
	default:
		at += " So " + r.origin + " is asked."
		if r.found.Lease > 0 {
			at += fmt.Sprintf(" Another replica is doing so: the request waits for that one, as long as it shows a sign of life within %s.", ago(r.found.Lease))
		}
		return at + r.fallback()
	}
}

// tells what one store has.
func (r reasoning) tells(name string, at cache.Stored) string {
	switch {
	case name == "Redis" && r.found.SharedErr != nil:
		return "Redis cannot be looked into."
	case name == "Redis" && r.found.SharedState == "off":
		return "Redis is not used."
	case at.Entry == nil:
		return name + " has nothing."
	case r.expired(at) && at.State == cache.Expired:
		return fmt.Sprintf("%s has an answer whose short life ended %s ago.", name, ago(r.now.Sub(at.Expires)))
	case r.q.Policy.Immutable && !r.q.Policy.ImmutableIfOK:
		return name + " has it, and an answer at a given height never changes."
	default:
		return fmt.Sprintf("%s has it, %s: %s.", name, r.age(at), r.bounds(at))
	}
}

// age is how old an answer is, in the measure it is judged by.
func (r reasoning) age(at cache.Stored) string {
	read := "read " + ago(r.now.Sub(at.ReadAt)) + " ago"
	switch {
	case r.inBlocks(at):
		return fmt.Sprintf("at block %d, %d behind the tip", at.Height, max(0, r.q.Tip-at.Height))
	case r.q.Tip > 0:
		return "of no known block, " + read
	default:
		return read
	}
}

func (r reasoning) inBlocks(at cache.Stored) bool { return r.q.Tip > 0 && at.Height > 0 }

func (r reasoning) expired(at cache.Stored) bool {
	return !at.Expires.IsZero() && !r.now.Before(at.Expires)
}

// bounds are those of the policy that an answer is between.
func (r reasoning) bounds(at cache.Stored) string {
	p := r.q.Policy
	bound := [...]string{"fresh " + p.Fresh.String(), "stale " + p.Stale.String(), "stale_if_error " + p.StaleIfError.String()}
	if r.inBlocks(at) {
		bound = [...]string{fmt.Sprint("fresh_blocks ", p.FreshBlocks), fmt.Sprint("stale_blocks ", p.StaleBlocks), fmt.Sprint("error_blocks ", p.ErrorBlocks)}
	}
	var words []string
	switch {
	case r.expired(at):
		words = append(words, "past its short life as fresh")
	case at.State > cache.Fresh:
		words = append(words, "past "+bound[at.State-1])
	}
	switch {
	case at.State < cache.Expired:
		words = append(words, "within "+bound[at.State])
	case r.inBlocks(at):
		words = append(words, "or past stale_if_error "+p.StaleIfError.String())
	}
	return strings.Join(words, ", ")
}

// fallback says what is served should the origin fail, or be slow.
func (r reasoning) fallback() string {
	for _, at := range []cache.Stored{r.found.Memory, r.found.Shared} {
		if at.Entry != nil && at.State == cache.Stale {
			return fmt.Sprintf(" Should that fail or take longer than %s, the answer %s is served.", r.found.RevalidationWait.Truncate(time.Millisecond), r.age(at))
		}
		if at.Entry != nil && at.State <= cache.StaleIfError {
			return " Should that fail, the answer " + r.age(at) + " stands in."
		}
	}
	return " Should that fail, the client gets the error."
}
