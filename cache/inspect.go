package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
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
	Namespace      string // "" while the chain has no name
	Memory, Shared Stored
	Trouble        error         // what the origin failed with since it gave the entry in memory
	Renewing       bool          // the entry in memory is being read anew
	SharedState    string        // as Cache.SharedState says
	SharedErr      error         // why nothing is known of the shared store
	Lease          time.Duration // what is left of the lease of a replica that is asking the origin; 0 = none

	// Forecast is what a Get would come to now, from Store. Miss means that the
	// origin would be asked; whether it would answer, nobody knows.
	Forecast Outcome
	Store    string
}

// Inspect looks at what a Get of q would look at. It asks no origin, begins
// nothing and keeps nothing alive.
func (c *Cache) Inspect(ctx context.Context, q Query) Inspection {
	ch := c.chain.Load()
	i := Inspection{Namespace: ch.id, SharedState: c.SharedState(), Memory: Stored{State: Gone}, Shared: Stored{State: Gone}}
	if at := ch.memory.peek(q.Key); at != nil {
		i.Memory = Stored{Entry: at.entry, State: q.state(at, c.o.Now())}
		i.Trouble, i.Renewing = at.trouble(), at.renewing.Load()
	}
	if ch.wake != nil {
		i.SharedErr = c.shared.inspect(ctx, ch.id, q.Key, &i)
	}
	if i.Shared.Entry != nil {
		i.Shared.State = q.state(&held{entry: i.Shared.Entry}, c.o.Now())
	}
	i.Forecast, i.Store = i.forecast()
	return i
}

// forecast follows Get from the nearest store to the origin.
func (i *Inspection) forecast() (o Outcome, store string) {
	outcomes := [...]Outcome{Fresh: Hit, Stale: StaleHit}
	switch {
	case i.Memory.State <= Stale:
		return outcomes[i.Memory.State], inMemory
	case i.Memory.State == StaleIfError && i.Trouble != nil:
		return StaleError, inMemory
	case i.Shared.State <= Stale:
		return outcomes[i.Shared.State], inShared
	default:
		return Miss, fromOrigin
	}
}

// peek is get without a trace in the order of eviction.
func (m *memory) peek(key string) *held {
	e, _ := m.store.GetEntryQuietly(key)
	return e.Value
}

// inspect fills in what the store has of a key: its entry, when that expires and
// what is left of its lease.
func (s *shared) inspect(ctx context.Context, namespace, key string, i *Inspection) error {
	at := entryKey(namespace, key)
	var fields *redis.SliceCmd
	var expiry, lease *redis.DurationCmd
	err := s.do(ctx, func(ctx context.Context) error {
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			fields, expiry, lease = p.HMGet(ctx, at, "m", "b"), p.PTTL(ctx, at), p.PTTL(ctx, at+":l")
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("cache: inspect the shared store: %w", err)
	}
	i.Lease = max(0, lease.Val()) // negative: no lease, or one without an expiry, which is none
	m, ok := fields.Val()[0].(string)
	if !ok {
		return nil
	}
	b, _ := fields.Val()[1].(string)
	e, err := s.codec.decode([]byte(m), []byte(b), nil)
	if err == nil {
		i.Shared = Stored{Entry: e, Expiry: expiry.Val()}
	}
	return err
}
