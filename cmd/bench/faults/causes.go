package faults

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A fault is something that goes wrong for a time, or at a moment.
type fault struct {
	name  string
	begin func(ctx context.Context, b *bed) error
	hold  time.Duration
	end   func(ctx context.Context, b *bed) error // nil: nothing needs to be mended
}

const (
	farAhead = 1_000_000 // blocks that a lie is above the truth
	lagBy    = 20        // blocks that a node is behind
	setBack  = 50        // blocks that a chain is set back by
	resetBy  = 300       // blocks that a chain that was reset is below what it was
)

// lever is a fault that one function begins and ends.
func lever[A any](name string, hold time.Duration, set func(b *bed, to A) error, on, off A) fault {
	at := func(to A) func(context.Context, *bed) error {
		return func(_ context.Context, b *bed) error { return set(b, to) }
	}
	return fault{name, at(on), hold, at(off)}
}

// lie has a node tell of heights far above the truth.
func lie(node int, hold time.Duration) fault {
	return lever("a lie of +10^6", hold, func(b *bed, ahead int64) error {
		return b.nodes[node].SetFaults(devnet.Fault{Latency: b.plan.nodeLatency}, devnet.Fault{Ahead: ahead})
	}, farAhead, 0)
}

// lagging has a node catch up: it is some blocks behind and says so.
func lagging(node int, hold time.Duration) fault {
	return lever("a node is 20 blocks behind", hold, func(b *bed, blocks int64) error {
		b.nodes[node].SetLag(blocks)
		b.nodes[node].SetCatchingUp(blocks > 0)
		return nil
	}, lagBy, 0)
}

// backBy takes the newest blocks of the chain away, once it is known what the node
// said of them.
func backBy(blocks int64) fault {
	return fault{name: fmt.Sprintf("%d blocks back", blocks), begin: func(ctx context.Context, b *bed) error { return b.fork(ctx, blocks) }}
}

// halt stops the making of blocks.
func halt(hold time.Duration) fault {
	return lever("a halt", hold, func(b *bed, halted bool) error {
		if halted {
			b.chain.Halt()
		} else {
			b.chain.Resume()
		}
		return nil
	}, true, false)
}

// A node whose execution client hangs makes no block. Its /abci_info blocks for most
// of a period, as that of a real node does; /status answers at once.
const (
	hangPeriod = 12 * time.Second
	hangBlocks = 9 * time.Second
)

// hang has the execution clients of all nodes hang.
func hang(hold time.Duration) fault {
	return fault{name: "/abci_info blocks 9 s of 12", begin: func(ctx context.Context, b *bed) error {
		b.chain.Halt()
		defer b.chain.Resume()
		ctx, cancel := context.WithTimeout(ctx, hold)
		defer cancel()
		for ctx.Err() == nil {
			if err := b.setFaults(devnet.Fault{}, devnet.Fault{HangInfo: true}); err != nil {
				return err
			}
			rig.Pause(ctx, hangBlocks)
			if err := b.setFaults(devnet.Fault{}, devnet.Fault{}); err != nil {
				return err
			}
			rig.Pause(ctx, hangPeriod-hangBlocks)
		}
		return nil
	}}
}

// nodeFault fails both servers of all nodes.
func nodeFault(name string, f devnet.Fault, hold time.Duration) fault {
	return lever("node: "+name, hold, func(b *bed, f devnet.Fault) error { return b.setFaults(f, f) }, f, devnet.Fault{})
}

// setFaults is of all nodes.
func (b *bed) setFaults(rest, comet devnet.Fault) error {
	rest.Latency = b.plan.nodeLatency
	for _, n := range b.nodes {
		if err := n.SetFaults(rest, comet); err != nil {
			return err
		}
	}
	return nil
}

// lateBlock restarts the nodes for a time, and has the next block come only a time after they
// are back: until then those of the SDK cannot read their latest block.
func lateBlock(outage, late time.Duration) fault {
	f := nodeFault("restarted, and the next block is late", devnet.Fault{Outage: devnet.Refuse}, outage)
	refuse, mend := f.begin, f.end
	f.begin = func(ctx context.Context, b *bed) error { b.chain.Halt(); return refuse(ctx, b) }
	f.end = func(ctx context.Context, b *bed) error {
		defer b.chain.Resume()
		if err := mend(ctx, b); err != nil {
			return err
		}
		b.note("the nodes are back")
		rig.Pause(ctx, late)
		return nil
	}
	return f
}

// failover kills the Redis that has the keys. The replicas use the one that takes
// over as soon as they are to be well again.
var failover = fault{name: "the master dies", begin: func(ctx context.Context, b *bed) error {
	if err := b.failover.KillMaster(ctx); err != nil {
		return err
	}
	taken := time.Now()
	b.note("another has taken over")
	for !b.redisServes(ctx) {
		if time.Since(taken) > freshWithin {
			return fmt.Errorf("%v after another has taken over the replicas do not use it", freshWithin)
		}
	}
	b.note("all replicas use it")
	return nil
}}

// redisServes tells whether no exchange of any replica with Redis fails within a
// second, with no breaker open.
func (b *bed) redisServes(ctx context.Context) bool {
	errors := func() (sum float64) {
		for _, r := range b.replicas {
			m, err := r.Metrics(ctx)
			if err != nil || m.Sum("tipcache_cache_shared_breaker_state") != 0 {
				return math.NaN()
			}
			sum += m.Sum("tipcache_cache_shared_errors_total")
		}
		return sum
	}
	before := errors()
	return rig.Pause(ctx, time.Second) && errors() == before
}

// redisOutage kills Redis, which comes back empty.
func redisOutage(hold time.Duration) fault {
	return fault{
		"Redis killed", func(_ context.Context, b *bed) error { b.redis.Kill(); return nil }, hold,
		func(ctx context.Context, b *bed) error {
			if err := b.redis.Restart(ctx); err != nil {
				return err
			}
			return b.redis.Ready(ctx)
		},
	}
}

// killLast kills a replica. What the others hold tells of leaks.
func killLast(_ context.Context, b *bed) error {
	b.replicas[len(b.replicas)-1].kill()
	return nil
}

// replicaKilled kills the last replica, which starts again.
func replicaKilled(hold time.Duration) fault {
	return fault{"a replica killed", killLast, hold, func(ctx context.Context, b *bed) error {
		r := b.replicas[len(b.replicas)-1]
		return r.revive(ctx, func(ctx context.Context) error { return r.Process.Ready(ctx, rig.Answers(r.Admin+"/healthz")) })
	}}
}

// leftovers are what Redis has of a chain that is reset while no replica runs.
var leftovers = fault{
	"replicas start on what a chain left that was reset", func(ctx context.Context, b *bed) error {
		for _, r := range b.replicas {
			r.kill()
		}
		return b.fork(ctx, resetBy)
	}, time.Second,
	func(ctx context.Context, b *bed) error {
		for _, r := range b.replicas {
			if err := r.revive(ctx, r.Ready); err != nil {
				return err
			}
		}
		return nil
	},
}

// networkFault fails a link in one way.
func networkFault(name, weather string, hold time.Duration) fault {
	return fault{
		name + ": " + weather, func(_ context.Context, b *bed) error { return b.links[name].fail(weather) }, hold,
		func(ctx context.Context, b *bed) error { b.links[name].mend(ctx); return nil },
	}
}
