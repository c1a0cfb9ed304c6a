package cache

import (
	"cmp"
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
	i := Inspection{Namespace: ch.namespace, SharedState: c.SharedState(), Memory: Stored{State: Expired}, Shared: Stored{State: Expired}, Ahead: ch.ahead.Has(q.Key)}
	at := ch.memory.peek(q.Key)
	if at != nil {
		i.Memory = Stored{Entry: at.entry, State: q.judge(at, c.o.Now)}
		i.LastFailure, i.Renewing, i.RevalidationWait = c.failure(ch, q.Key, at), at.renewing.Load(), c.revalidationWait(&q, at)
	}
	outcome, err := c.decide(ch, &q, at)
	i.Forecast, i.Store, i.LastFailure = outcome, inMemory, cmp.Or(err, i.LastFailure)
	if outcome == Miss {
		i.Store = fromOrigin
	}
	if ch.replicas == nil {
		return i
	}
	record, err := c.o.Shared.Inspect(ctx, ch.namespace, q.Key)
	i.Lease, i.SharedErr = record.Lease, err
	if record.Entry == nil {
		return i
	}
	at = &slot{entry: record.Entry}
	i.Shared = Stored{Entry: record.Entry, State: q.judge(at, c.o.Now), Expiry: record.Expiry}
	if i.Memory.State > Stale {
		i.RevalidationWait = c.revalidationWait(&q, at)
	}
	if outcome, _ := c.decide(ch, &q, at); i.Forecast == Miss && (outcome == Hit || outcome == StaleHit) {
		i.Forecast, i.Store = outcome, inShared
	}
	return i
}
