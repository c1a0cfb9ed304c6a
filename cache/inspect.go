package cache

import (
	"context"
	"time"
)

// Stored is what one store has for a query.
type Stored struct {
	*Entry               // nil: nothing
	State  State         // what it is good for
	Expiry time.Duration // what is left until the store drops it; 0 in memory, which has no such time
}

// An Inspection is what the stores have for a query and what a Get would make of
// it, found out without one.
type Inspection struct {
	Namespace        string // "" while the chain has no name
	Memory, Shared   Stored
	RevalidationWait time.Duration // how long a Get waits for the origin where an entry is stale
	LastFailure      error         // why nobody waits for the origin, which failed a moment ago; nil if callers wait
	Renewing         bool          // the entry in memory is being read anew
	Ahead            bool          // the key is read ahead when the next block comes, if it is asked for as often in this one
	SharedState      string        // as Cache.SharedState says
	SharedErr        error         // why nothing is known of the shared store
	Lease            time.Duration // what is left of the lease of a replica that is asking the origin; 0 = none

	// Forecast is what a Get would come to now, from Store. Miss means that the
	// origin would be asked; whether it would answer is not known.
	Forecast Outcome
	Store    string
}

// Inspect looks at what a Get of q would look at. It asks no origin, begins
// nothing and keeps nothing alive.
func (c *Cache) Inspect(ctx context.Context, q Query) Inspection {
	ch := c.chain.Load()
	i := Inspection{Namespace: ch.namespace, SharedState: c.SharedState(), Memory: Stored{State: Expired}, Shared: Stored{State: Expired}}
	if at := ch.memory.peek(q.Key); at != nil {
		i.Memory = Stored{Entry: at.entry, State: q.judge(at, c.o.Now)}
		i.LastFailure, i.Renewing, i.RevalidationWait = c.failure(ch, q.Key, at), at.renewing.Load(), c.revalidationWait(&q, at)
	}
	if ch.replicas != nil {
		var record SharedRecord
		record, i.SharedErr = c.o.Shared.Inspect(ctx, ch.namespace, q.Key)
		i.Lease = record.Lease
		if e := record.Entry; e != nil {
			at := &slot{entry: e}
			i.Shared = Stored{Entry: e, State: q.judge(at, c.o.Now), Expiry: record.Expiry}
			if i.Memory.State > Stale {
				i.RevalidationWait = c.revalidationWait(&q, at)
			}
		}
	}
	i.Ahead = ch.ahead.Has(q.Key)
	i.Forecast, i.Store = i.forecast()
	return i
}

// forecast follows Get from the nearest store to the origin.
func (i *Inspection) forecast() (o Outcome, store string) {
	outcomes := [...]Outcome{Fresh: Hit, Stale: StaleHit}
	switch {
	case i.RevalidationWait > 0 && (i.Memory.State == Stale || i.Memory.State > Stale && i.Shared.State == Stale && i.LastFailure == nil):
		return Miss, fromOrigin
	case i.Memory.State <= Stale:
		return outcomes[i.Memory.State], inMemory
	case i.Memory.State == StaleIfError && i.LastFailure != nil:
		return StaleError, inMemory
	case i.Shared.State <= Stale:
		return outcomes[i.Shared.State], inShared
	default:
		return Miss, fromOrigin
	}
}
