package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
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

// smallMemory is a cache.memory that the lists of manyStreams do not fit into, and
// smallBound what a replica may hold with it: one and a half times that, and 100 MiB.
const (
	smallMemory = "TIPCACHE_CACHE_MEMORY=32MiB"
	smallBound  = (32*3/2 + 100) << 20
)

const (
	manyStreams    = 30 // by clients, each of as many lists as one may have
	listsPerStream = 20
)

// listsStreamed has clients follow many large lists at the first replica, which holds no more
// than it may.
func listsStreamed(hold time.Duration) fault {
	name := fmt.Sprintf("%d lists in %d streams", manyStreams*listsPerStream, manyStreams)
	return fault{name: name, hold: hold, withstood: true, do: func(ctx context.Context, b *bed, last func()) error {
		return during(ctx, last, func(ctx context.Context) error {
			var all sync.WaitGroup
			defer all.Wait()
			for i := range manyStreams {
				all.Go(func() { b.follow(ctx, i) })
			}
			return b.withinBound(ctx, b.replicas[0])
		})
	}}
}

// follow reads a stream of lists again and again, as EventSource does.
func (b *bed) follow(ctx context.Context, client int) {
	path := "/live?"
	for i := range listsPerStream {
		n := client*listsPerStream + i
		path += fmt.Sprintf("path=%s%%3Fpagination.limit%%3D%d%%26pagination.offset%%3D%d&", b.Path("/staking/validators"), 20+n%50, n/50)
	}
	request := clients.Request("GET", path, "", "Accept: text/event-stream")
	for rig.Pause(ctx, time.Second) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.replicas[0].addrs[0])
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if _, err = conn.Write(request); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
		stop()
		_ = conn.Close()
	}
}

// withinBound looks at what a replica holds until ctx ends.
func (b *bed) withinBound(ctx context.Context, r *replica) error {
	var peak int64
	for rig.Pause(ctx, time.Second/4) {
		u, err := r.Usage()
		if err != nil {
			return err
		}
		peak = max(peak, u.RSS)
	}
	b.note("replica 1 held %d MiB at most, of %d", peak>>20, smallBound>>20)
	if peak > smallBound {
		return fmt.Errorf("a replica held %d MiB, more than %d", peak>>20, smallBound>>20)
	}
	return nil
}
