package faults

import (
	"context"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// leasesHeld has a neighbour in Redis hold the leases of all answers.
func leasesHeld(hold time.Duration) fault {
	return fault{name: "a neighbour renews all leases", hold: hold, withstood: true, do: func(ctx context.Context, b *bed, last func()) error {
		return during(ctx, last, b.holdLeases)
	}}
}

// during does something until a fault ends.
func during(ctx context.Context, last func(), do func(ctx context.Context) error) (err error) {
	ctx, end := context.WithCancel(ctx)
	var doing sync.WaitGroup
	doing.Go(func() { err = do(ctx) })
	last()
	end()
	doing.Wait()
	return err
}

// leaseTime is that of the replicas.
const leaseTime = 3 * time.Second

func (b *bed) holdLeases(ctx context.Context) error {
	for rig.Pause(ctx, leaseTime/30) {
		entries, err := b.redis.Keys(ctx, "tipcache:1:{*}").Result()
		if err != nil {
			continue // ctx has ended, or Redis is away
		}
		all := b.redis.Pipeline()
		for _, entry := range entries {
			all.Set(ctx, entry+":l", "a neighbour", leaseTime)
		}
		_, _ = all.Exec(ctx)
	}
	return nil
}
