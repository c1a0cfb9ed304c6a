package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A fault is something that goes wrong for a time, or at a moment.
type fault struct {
	name   string
	hold   time.Duration // how long it lasts; 0: it is not mended, or as long as begin takes
	begin  step          // nil: nothing
	during step          // until the context ends, which it does after hold, or with the run; nil: nothing
	end    step          // nil: nothing

	withstood bool // answers become fresh again while it lasts
}

// A step is a part of a fault.
type step func(ctx context.Context, b *bed)

func (f fault) isWithstood() fault {
	f.withstood = true
	return f
}

const (
	farAhead = 1_000_000 // blocks that a lie is above the truth
	lagBy    = 20        // blocks that a node is behind
	setBack  = 50        // blocks that a chain is set back by
	resetBy  = 300       // blocks that a chain that was reset is below what it was
)

// well is a server that does not fail.
var well devnet.Fault

// nodesFail has servers of nodes fail, of all where none is named.
func nodesFail(name string, hold time.Duration, rest, comet devnet.Fault, nodes ...int) fault {
	return fault{
		name: name, hold: hold,
		begin: func(_ context.Context, b *bed) { b.setFaults(rest, comet, nodes...) },
		end:   func(_ context.Context, b *bed) { b.setFaults(well, well, nodes...) },
	}
}

// setFaults has nodes fail alike, all where none is named.
func (b *bed) setFaults(rest, comet devnet.Fault, nodes ...int) {
	rest.Latency = b.plan.nodeLatency
	for i, n := range b.nodes {
		if len(nodes) == 0 || slices.Contains(nodes, i) {
			rig.Check(n.SetFaults(rest, comet))
		}
	}
}

// nodeFault fails both servers of all nodes.
func nodeFault(name string, f devnet.Fault, hold time.Duration) fault {
	return nodesFail("node: "+name, hold, f, f)
}

// lagging has a node catch up: it is some blocks behind and says so.
func lagging(node int, hold time.Duration) fault {
	lag := func(blocks int64) step {
		return func(_ context.Context, b *bed) {
			b.nodes[node].SetLag(blocks)
			b.nodes[node].SetCatchingUp(blocks > 0)
		}
	}
	return fault{name: "a node is 20 blocks behind", hold: hold, begin: lag(lagBy), end: lag(0)}
}

// backBy takes the newest blocks of the chain away, once it is known what the node
// said of them.
func backBy(blocks int64) fault {
	return fault{name: fmt.Sprintf("%d blocks back", blocks), begin: func(ctx context.Context, b *bed) { b.fork(ctx, blocks) }}
}

// halt stops the making of blocks.
func halt(hold time.Duration) fault {
	return fault{name: "a halt", hold: hold, begin: func(_ context.Context, b *bed) { b.chain.Halt() }, end: func(_ context.Context, b *bed) { b.chain.Resume() }}
}

// A node whose execution client hangs makes no block. Its /abci_info blocks for most
// of a period, as that of a real node does; /status answers at once.
const (
	hangPeriod = 12 * time.Second
	hangBlocks = 9 * time.Second
)

// hang has the execution clients of all nodes hang.
func hang(hold time.Duration) fault {
	f := halt(hold)
	f.name = "/abci_info blocks 9 s of 12"
	f.during = func(ctx context.Context, b *bed) {
		for ctx.Err() == nil {
			b.setFaults(well, devnet.Fault{HangInfo: true})
			rig.Pause(ctx, hangBlocks)
			b.setFaults(well, well)
			rig.Pause(ctx, hangPeriod-hangBlocks)
		}
	}
	return f
}

// lateBlock restarts the nodes for a time, and has the next block come only a time after they
// are back: until then those of the SDK cannot read their latest block.
func lateBlock(refuse devnet.Fault, outage, late time.Duration) fault {
	f := nodeFault("restarted, and the next block is late", refuse, outage)
	restart, back := f.begin, f.end
	f.begin = func(ctx context.Context, b *bed) {
		b.chain.Halt()
		restart(ctx, b)
	}
	f.end = func(ctx context.Context, b *bed) {
		back(ctx, b)
		b.note("the nodes are back")
		rig.Pause(ctx, late)
		b.chain.Resume()
	}
	return f
}

// failover kills the Redis that has the keys. The replicas use the one that takes
// over as soon as they are to be well again.
var failover = fault{name: "the master dies", begin: func(ctx context.Context, b *bed) {
	b.failover.KillMaster(ctx)
	taken := time.Now()
	b.note("another has taken over")
	for !b.redisServes(ctx) {
		if time.Since(taken) > freshWithin {
			rig.Check(fmt.Errorf("%v after another has taken over the replicas do not use it", freshWithin))
		}
	}
	b.note("all replicas use it")
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
		name: "Redis killed", hold: hold,
		begin: func(_ context.Context, b *bed) { b.redis.Kill() },
		end: func(ctx context.Context, b *bed) {
			b.redis.Restart(ctx)
			b.redis.Ready(ctx)
		},
	}
}

// last is the replica that faults are of. The first lives on, so that what it holds
// tells of leaks.
func (b *bed) last() *replica { return b.replicas[len(b.replicas)-1] }

// replicaKilled kills the last replica, which starts again after a time, if there is
// one.
func replicaKilled(hold time.Duration) fault {
	f := fault{name: "a replica killed", hold: hold, begin: func(_ context.Context, b *bed) { b.last().kill() }}
	if hold > 0 {
		f.end = func(ctx context.Context, b *bed) { b.last().revive(ctx, "/healthz") }
	}
	return f
}

// leftovers are what Redis has of a chain that is reset while no replica runs.
var leftovers = fault{
	name: "replicas start on what a chain left that was reset", hold: time.Second,
	begin: func(ctx context.Context, b *bed) {
		for _, r := range b.replicas {
			r.kill()
		}
		b.fork(ctx, resetBy)
	},
	end: func(ctx context.Context, b *bed) {
		for _, r := range b.replicas {
			r.revive(ctx, "/readyz")
		}
	},
}

// leaseTime is that of the replicas.
const leaseTime = 3 * time.Second

// leasesHeld has a neighbour in Redis hold the leases of all answers.
func leasesHeld(hold time.Duration) fault {
	return fault{name: "a neighbour renews all leases", hold: hold, withstood: true, during: func(ctx context.Context, b *bed) {
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
	}}
}

// networkFaults fail each link in each way.
func networkFaults(hold time.Duration) (all []fault) {
	for _, name := range linkNames {
		for _, weather := range slices.Sorted(maps.Keys(weathers)) {
			all = append(all, fault{
				name: name + ": " + weather, hold: hold,
				begin: func(_ context.Context, b *bed) { rig.Check(b.links[name].fail(weather)) },
				end:   func(ctx context.Context, b *bed) { b.links[name].mend(ctx) },
			})
		}
	}
	return all
}
