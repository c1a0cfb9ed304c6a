package cache

import (
	"context"
	"time"
)

// finding is what a flight knows once it has consulted the shared store.
type finding struct {
	enough bool   // at ends the flight
	at     *held  // the newest entry at hand, nil for none
	store  string // where at was found
	lease  *lease // to settle or abandon; nil without a shared store
}

// consult looks into the shared store until it gives an entry that ends the
// flight, or the origin is this flight's to ask: because it has the lease,
// because the one who had it failed, or because the shared store is not well.
// Then replicas go their own ways, and callers are still coalesced in each.
func (f *flight) consult(ctx context.Context, prev *held) finding {
	found := finding{at: prev, store: inMemory}
	if f.ch.wake == nil || f.q.Policy.Keep <= 0 {
		return found
	}
	found.lease = f.c.shared.newLease(f.ch.id, f.q.Key, f.q.Policy.Keep)
	// Listening begins before asking: a message between the two must not be lost.
	woken := f.ch.wake.join(f.q.Key)
	defer f.ch.wake.leave(f.q.Key)
	for {
		drain(woken)
		said, err := found.lease.ask(ctx, f.q.demand(f.accept, f.c.o.Now()), found.at)
		if err != nil {
			return found
		}
		if said.entry != nil && !said.entry.knownAs(found.at) {
			found.at, found.store = f.keep(said.entry), inShared
		}
		switch said.verdict {
		case enough:
			found.enough = said.entry != nil
			return found
		case leased:
			found.lease.keep(ctx)
			return found
		}
		if !f.await(ctx, woken, said.left) {
			return found
		}
	}
}

// await waits for the replica that has the lease, at most for what is left of
// it, and tells whether to ask the shared store again.
func (f *flight) await(ctx context.Context, woken <-chan bool, left time.Duration) bool {
	began := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	f.c.counts.leaseWaits.Add(1)
	wait := f.c.counts.leaseWaited
	select {
	case again := <-woken:
		if again {
			wait("woken", began)
		} else {
			wait("failed", began)
		}
		return again
	case <-timer.C:
		wait("expired", began)
		return true
	case <-ctx.Done():
		wait("timeout", began)
		return false
	}
}

func drain(woken <-chan bool) {
	select {
	case <-woken:
	default:
	}
}

// demand is what an entry must satisfy to be enough, in the terms of the script
// that looks for it. It says the same as Policy.State.
type demand struct {
	byBlocks bool  // judge entries of known height by least
	least    int64 // lowest height, where byBlocks says so
	floor    int64 // lowest height of the others
	since    int64 // earliest reading of the others, in microseconds
	now      int64 // entries that expire by then are absent, in microseconds
}

func (q *Query) demand(accept State, now time.Time) demand {
	p := &q.Policy
	blocks, age := p.FreshBlocks, p.Fresh
	if accept == Stale {
		blocks, age = max(blocks, p.StaleBlocks), max(age, p.Stale)
	}
	d := demand{
		byBlocks: q.Tip > 0,
		least:    max(q.MinHeight, q.Tip-blocks),
		floor:    q.MinHeight,
		since:    now.Add(-age).UnixMicro(),
		now:      now.UnixMicro(),
	}
	switch {
	case p.Immutable:
		d.byBlocks, d.since = false, 0
	case q.Tip > 0 && accept == Fresh:
		d.since = never
	}
	if q.Tip == 0 && !q.Since.IsZero() {
		d.since = max(d.since, q.Since.UnixMicro())
	}
	return d
}

// never is a time later than all others, and exact as a double in Lua.
const never = 1 << 53
