package cache

import (
	"cmp"
	"context"
	"time"
)

// Stored is what one store holds for a query.
type Stored struct {
	Entry  *Entry        // nil for none
	State  State         // judged for the query
	Expiry time.Duration // until the entry expires in the store; 0 in memory, where it does not
}

// Inspection is what the stores hold for a query and what Get would do, determined without side effects.
type Inspection struct {
	Namespace        string // "" while unknown
	Memory, Shared   Stored
	RevalidationWait time.Duration // how long Get waits for the origin if an entry is stale
	LastFailure      error         // recent failure of the origin, after which callers do not wait for it; nil for none
	Renewing         bool          // a background flight is refreshing the entry in memory
	Ahead            bool          // the key is read ahead at the next block if it is requested at least [ahead.Often] times in this one
	SharedState      string        // see Cache.SharedState
	SharedErr        error         // why the shared store could not be inspected
	Lease            time.Duration // remaining time of the lease of a replica that reads the origin; 0 for none

	// Forecast is the outcome of Get now, from Store. Miss means that the origin would be read, perhaps without success.
	Forecast Outcome
	Store    string
}

// Inspect looks at everything that Get would look at. It reads no origin, starts nothing and counts nothing.
func (c *Cache) Inspect(ctx context.Context, q Query, from Loader) Inspection {
	sp := c.space.Load()
	r := &request{c: c, sp: sp, q: q, from: from}
	i := Inspection{Namespace: sp.namespace, SharedState: c.SharedState(), Memory: Stored{State: Expired}, Shared: Stored{State: Expired}}
	sp.keys.change(q.Key, func(r *record) { i.Ahead = r.streak.WillRead() })
	at := sp.memory.peek(q.Key)
	if at != nil {
		i.Memory = Stored{Entry: at.entry, State: q.judge(at, c.o.Now)}
		i.LastFailure, i.Renewing, i.RevalidationWait = r.failure(at), at.renewing.Load(), r.revalidationWait(at)
	}
	outcome, err := r.decide(at)
	i.Forecast, i.Store, i.LastFailure = outcome, inMemory, cmp.Or(err, i.LastFailure)
	if outcome == Miss {
		i.Store = fromOrigin
	}
	if sp.subscriber == nil {
		return i
	}
	record, err := c.o.Shared.Inspect(ctx, sp.namespace, q.Key)
	i.Lease, i.SharedErr = record.Lease, err
	if record.Entry == nil {
		return i
	}
	at = &slot{entry: record.Entry}
	i.Shared = Stored{Entry: record.Entry, State: q.judge(at, c.o.Now), Expiry: record.Expiry}
	if i.Memory.State > Stale {
		i.RevalidationWait = r.revalidationWait(at)
	}
	if outcome, _ := r.decide(at); i.Forecast == Miss && (outcome == Hit || outcome == StaleHit) {
		i.Forecast, i.Store = outcome, inShared
	}
	return i
}
