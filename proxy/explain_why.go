package proxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// reasoning describes the state of the stores in sentences.
type reasoning struct {
	q      cache.Query
	found  cache.Inspection
	origin string // name of the upstream
	now    time.Time

	editions bool // the heights of entries are editions of the store
}

// sentence describes the response to the request, and why.
func (r reasoning) sentence() string {
	memory, shared := r.describe("Memory", r.found.Memory), r.describe("Redis", r.found.Shared)
	at := memory
	if r.found.Store != "memory" {
		at = memory + " " + shared
	}
	switch r.found.Forecast {
	case cache.Hit:
		return at + " So it is served."
	case cache.StaleHit:
		at += " So it is served at once, and " + r.origin + " is read again in the background."
		switch {
		case r.found.Renewing:
			at += " That read is in progress."
		case r.found.LastFailure != nil:
			at += fmt.Sprintf(" The last read failed: %v.", r.found.LastFailure)
		}
		return at
	case cache.StaleError:
		return fmt.Sprintf("%s The last read failed (%v), so the entry is served without waiting for %s, and the next read is in the background.", at, r.found.LastFailure, r.origin)
	default:
		at += " So " + r.origin + " is read."
		if r.found.Lease > 0 {
			at += fmt.Sprintf(" Another replica is reading it: the request waits as long as that replica renews its lease within %s.", ago(r.found.Lease))
		}
		return at + r.fallback()
	}
}

// describe describes the entry in one store.
func (r reasoning) describe(name string, at cache.Stored) string {
	switch {
	case name == "Redis" && r.found.SharedErr != nil:
		return "Redis cannot be read."
	case name == "Redis" && r.found.SharedState == "off":
		return "Redis is not used."
	case at.Entry == nil:
		return name + " has nothing."
	case r.expired(at) && at.State == cache.Expired:
		return fmt.Sprintf("%s has an entry that expired %s ago.", name, ago(r.now.Sub(at.Entry.Expires)))
	case r.q.Policy.Immutable && at.Entry.Provisional:
		return fmt.Sprintf("%s has it, but from before a later block could be read. It is served until then, and is then read once more.", name)
	case r.q.Policy.IsImmutable(at.Entry.Stamp()) && at.Entry.Expires.IsZero():
		return name + " has it, and it never changes."
	case r.q.Policy.IsImmutable(at.Entry.Stamp()) && !r.expired(at):
		return fmt.Sprintf("%s has it, and it expires in %s.", name, ago(at.Entry.Expires.Sub(r.now)))
	default:
		return fmt.Sprintf("%s has it, %s: %s.", name, r.age(at), r.bounds(at))
	}
}

// age describes the age of an entry, in blocks or in time.
func (r reasoning) age(at cache.Stored) string {
	read := "read " + ago(r.now.Sub(at.Entry.ReadAt)) + " ago"
	switch {
	case r.editions:
		return read
	case r.inBlocks(at):
		return fmt.Sprintf("at block %d, %d behind the tip", at.Entry.Height, max(0, r.q.Tip-at.Entry.Height))
	case r.q.Tip > 0:
		return "at an unknown block, " + read
	default:
		return read
	}
}

func (r reasoning) inBlocks(at cache.Stored) bool { return r.q.Tip > 0 && at.Entry.Height > 0 }

func (r reasoning) expired(at cache.Stored) bool {
	return !at.Entry.Expires.IsZero() && !r.now.Before(at.Entry.Expires)
}

// bounds describes the limits of the policy that an entry is between.
func (r reasoning) bounds(at cache.Stored) string {
	p := r.q.Policy
	if r.editions && r.inBlocks(at) && !r.expired(at) {
		if at.State == cache.Fresh {
			return "the store has not changed since"
		}
		return "the store has changed since, or its metadata is due to be read again"
	}
	bound := [...]string{"fresh " + p.Fresh.String(), "stale " + p.Stale.String(), "stale_if_error " + p.StaleIfError.String()}
	if r.inBlocks(at) {
		bound = [...]string{fmt.Sprint("fresh_blocks ", p.FreshBlocks), fmt.Sprint("stale_blocks ", p.StaleBlocks), fmt.Sprint("error_blocks ", p.ErrorBlocks)}
	}
	var words []string
	switch {
	case r.expired(at):
		words = append(words, "past its expiry")
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

// fallback describes the response if the upstream fails or is slow.
func (r reasoning) fallback() string {
	for _, at := range []cache.Stored{r.found.Memory, r.found.Shared} {
		if at.Entry != nil && at.State == cache.Stale {
			return fmt.Sprintf(" If that fails or takes longer than %s, the entry %s is served.", r.found.RevalidationWait.Truncate(time.Millisecond), r.age(at))
		}
		if at.Entry != nil && at.State <= cache.StaleIfError {
			return " If that fails, the entry " + r.age(at) + " is served."
		}
	}
	return " If that fails, the client gets the error."
}
