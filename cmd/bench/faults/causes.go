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
	name string
	hold time.Duration // how long it lasts; 0: it is not mended, or as long as do takes
	do   func(ctx context.Context, b *bed, last func()) error

	withstood bool // answers become fresh again while it lasts
	forges    bool // answers are not the node's own meanwhile
}

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

// lie has a node tell of heights far above the truth.
func lie(node int, hold time.Duration) fault {
	return cometFault("a lie of +10^6", node, devnet.Fault{Ahead: farAhead}, hold)
}

// oldHeaders has the socket of a node send headers below what its /abci_info says.
func oldHeaders(node int, blocks int64, hold time.Duration) fault {
	return cometFault(fmt.Sprintf("the socket is %d blocks behind", blocks), node, devnet.Fault{EventsBehind: blocks}, hold).isWithstood()
}

// silentComet has CometBFT of a node accept and not answer, while its REST server does.
func silentComet(node int, hold time.Duration) fault {
	return cometFault("CometBFT hangs", node, devnet.Fault{Stall: true}, hold).isWithstood()
}

// cometFault fails CometBFT of a node alone.
func cometFault(name string, node int, comet devnet.Fault, hold time.Duration) fault {
	return fault{name: name, hold: hold, do: func(_ context.Context, b *bed, last func()) error {
		rest := devnet.Fault{Latency: b.plan.nodeLatency}
		if err := b.nodes[node].SetFaults(rest, comet); err != nil {
			return err
		}
		last()
		return b.nodes[node].SetFaults(rest, devnet.Fault{})
	}}
}

// lagging has a node catch up: it is some blocks behind and says so.
func lagging(node int, hold time.Duration) fault {
	return fault{name: "a node is 20 blocks behind", hold: hold, do: func(_ context.Context, b *bed, last func()) error {
		b.nodes[node].SetLag(lagBy)
		b.nodes[node].SetCatchingUp(true)
		last()
		b.nodes[node].SetLag(0)
		b.nodes[node].SetCatchingUp(false)
		return nil
	}}
}

// backBy takes the newest blocks of the chain away, once it is known what the node
// said of them.
func backBy(blocks int64) fault {
	return fault{name: fmt.Sprintf("%d blocks back", blocks), do: func(ctx context.Context, b *bed, _ func()) error { return b.fork(ctx, blocks) }}
}

// halt stops the making of blocks.
func halt(hold time.Duration) fault {
	return fault{name: "a halt", hold: hold, do: func(_ context.Context, b *bed, last func()) error {
		b.chain.Halt()
		last()
		b.chain.Resume()
		return nil
	}}
}

// A node whose execution client hangs makes no block. Its /abci_info blocks for most
// of a period, as that of a real node does; /status answers at once.
const (
	hangPeriod = 12 * time.Second
	hangBlocks = 9 * time.Second
)

// hang has the execution clients of all nodes hang.
func hang(hold time.Duration) fault {
	return fault{name: "/abci_info blocks 9 s of 12", do: func(ctx context.Context, b *bed, _ func()) error {
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
	return fault{name: "node: " + name, hold: hold, do: func(_ context.Context, b *bed, last func()) error {
		if err := b.setFaults(f, f); err != nil {
			return err
		}
		last()
		return b.setFaults(devnet.Fault{}, devnet.Fault{})
	}}
}

// setFaults has all nodes fail alike.
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
	restart := f.do
	f.do = func(ctx context.Context, b *bed, last func()) error {
		b.chain.Halt()
		defer b.chain.Resume()
		if err := restart(ctx, b, last); err != nil {
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
var failover = fault{name: "the master dies", do: func(ctx context.Context, b *bed, _ func()) error {
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
	return fault{name: "Redis killed", hold: hold, do: func(ctx context.Context, b *bed, last func()) error {
		b.redis.Kill()
		last()
		if err := b.redis.Restart(ctx); err != nil {
			return err
		}
		return b.redis.Ready(ctx)
	}}
}

// replicaKilled kills the last replica, which starts again after a time, if there is
// one. The first replica lives on, so that what it holds tells of leaks.
func replicaKilled(hold time.Duration) fault {
	return fault{name: "a replica killed", hold: hold, do: func(ctx context.Context, b *bed, last func()) error {
		r := b.replicas[len(b.replicas)-1]
		r.kill()
		if hold == 0 {
			return nil
		}
		last()
		return r.revive(ctx, func(ctx context.Context) error { return r.Process.Ready(ctx, rig.Answers(r.Admin+"/healthz")) })
	}}
}

// leftovers are what Redis has of a chain that is reset while no replica runs.
var leftovers = fault{name: "replicas start on what a chain left that was reset", hold: time.Second, do: func(ctx context.Context, b *bed, last func()) error {
	for _, r := range b.replicas {
		r.kill()
	}
	if err := b.fork(ctx, resetBy); err != nil {
		return err
	}
	last()
	for _, r := range b.replicas {
		if err := r.revive(ctx, r.Ready); err != nil {
			return err
		}
	}
	return nil
}}

// networkFault fails a link in one way.
func networkFault(name, weather string, hold time.Duration) fault {
	return fault{name: name + ": " + weather, hold: hold, do: func(ctx context.Context, b *bed, last func()) error {
		if err := b.links[name].fail(weather); err != nil {
			return err
		}
		last()
		b.links[name].mend(ctx)
		return nil
	}}
}
