package faults

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A scenario is a bed and what goes wrong in it.
type scenario struct {
	name   string
	setup  setup
	faults []fault
}

const (
	farAhead = 1_000_000 // blocks that a lie is above the truth
	setBack  = 50        // blocks that a chain is set back by
)

func scenarios() []scenario {
	return []scenario{
		{"lie", setup{redis: oneRedis}, []fault{lie(0, 3*time.Second)}},
		{"two-nodes", setup{redis: oneRedis, nodes: 2}, []fault{lie(1, 20*time.Second)}},
		{"lagging", setup{redis: oneRedis, nodes: 2}, []fault{lagging(1, 10*time.Second)}},
		{"set-back", setup{}, []fault{backBy(setBack)}},
		{"set-back-redis", setup{redis: oneRedis}, []fault{backBy(setBack)}},
		{"set-backs", setup{redis: oneRedis, nodes: 2}, []fault{backBy(1), backBy(4), backBy(9), backBy(20)}},
		{"leftovers", setup{redis: oneRedis}, []fault{leftovers}},
		{"halt", setup{redis: oneRedis}, []fault{halt(20 * time.Second)}},
		{"hang", setup{redis: oneRedis}, []fault{hang(30 * time.Second)}},
		{"outage", setup{redis: oneRedis}, []fault{nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, 10*time.Second)}},
		{"stalled", setup{redis: oneRedis}, []fault{nodeFault("stalled", devnet.Fault{Stall: true}, 10*time.Second)}},
		{"restart", setup{redis: oneRedis}, []fault{lateBlock(3*time.Second, 8*time.Second)}},
		{"redis", setup{redis: oneRedis}, []fault{redisOutage(8 * time.Second)}},
		{"replica", setup{redis: oneRedis}, []fault{replicaKilled(8 * time.Second)}},
		{"sentinel", setup{redis: sentinels}, []fault{failover}},
		{"cluster", setup{redis: cluster}, []fault{failover}},
		{"net", setup{redis: oneRedis, links: true, postgres: true}, networkFaults(6 * time.Second)},
	}
}

// lie has a node tell of heights far above the truth.
func lie(node int, hold time.Duration) fault {
	set := func(ahead int64) func(context.Context, *bed) error {
		return func(_ context.Context, b *bed) error {
			return b.nodes[node].SetFaults(devnet.Fault{Latency: b.plan.nodeLatency}, devnet.Fault{Ahead: ahead})
		}
	}
	return fault{name: "a lie of +10^6", begin: set(farAhead), hold: hold, end: set(0)}
}

// lagging has a node catch up: it is some blocks behind and says so.
func lagging(node int, hold time.Duration) fault {
	set := func(blocks int64) func(context.Context, *bed) error {
		return func(_ context.Context, b *bed) error {
			b.nodes[node].SetLag(blocks)
			b.nodes[node].SetCatchingUp(blocks > 0)
			return nil
		}
	}
	return fault{name: "a node is 20 blocks behind", begin: set(20), hold: hold, end: set(0)}
}

// backBy takes the newest blocks of the chain away, once it is known what the node
// said of them.
func backBy(blocks int64) fault {
	return fault{name: fmt.Sprintf("%d blocks back", blocks), begin: func(ctx context.Context, b *bed) error { return b.fork(ctx, blocks) }}
}

// halt stops the making of blocks.
func halt(hold time.Duration) fault {
	return fault{
		name:  "a halt",
		begin: func(_ context.Context, b *bed) error { b.chain.Halt(); return nil }, hold: hold,
		end: func(_ context.Context, b *bed) error { b.chain.Resume(); return nil },
	}
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

// nodeFault fails both servers of all nodes.
func nodeFault(name string, f devnet.Fault, hold time.Duration) fault {
	set := func(rest, comet devnet.Fault) func(context.Context, *bed) error {
		return func(_ context.Context, b *bed) error {
			rest.Latency = b.plan.nodeLatency
			for _, n := range b.nodes {
				if err := n.SetFaults(rest, comet); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return fault{name: "node: " + name, begin: set(f, f), hold: hold, end: set(devnet.Fault{}, devnet.Fault{})}
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
	troubles := func() (sum float64) {
		for _, r := range b.replicas {
			m, err := r.Metrics(ctx)
			if err != nil || m.Sum("tipcache_cache_shared_breaker_state") != 0 {
				return math.NaN()
			}
			sum += m.Sum("tipcache_cache_shared_errors_total")
		}
		return sum
	}
	before := troubles()
	return rig.Pause(ctx, time.Second) && troubles() == before
}

func networkFaults(hold time.Duration) (all []fault) {
	for _, name := range linkNames {
		for _, weather := range weatherNames {
			all = append(all, networkFault(name, weather, hold))
		}
	}
	return all
}

func networkFault(name, weather string, hold time.Duration) fault {
	return fault{
		name:  name + ": " + weather,
		begin: func(_ context.Context, b *bed) error { return b.links[name].fail(weather) }, hold: hold,
		end: func(ctx context.Context, b *bed) error { b.links[name].mend(ctx); return nil },
	}
}
