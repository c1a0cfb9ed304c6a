package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A fault is something that goes wrong for a time, or at a moment.
type fault struct {
	name string
	hold time.Duration // how long it lasts; 0: it is not mended, or as long as cause takes

	// cause has it go wrong, and mends it once ctx is done, which is after hold, or with the
	// run. Of what holds no time ctx does not end.
	cause func(ctx context.Context, b *bed)

	withstood bool // answers become fresh again while it lasts
	unnoticed bool // clients see no failure, and at most one in a hundred answers that is not fresh
}

func (f fault) isWithstood() fault {
	f.withstood = true
	return f
}

// between is a fault that begins and ends at once.
func between(name string, hold time.Duration, begin, end func(b *bed)) fault {
	return fault{name: name, hold: hold, cause: func(ctx context.Context, b *bed) {
		begin(b)
		<-ctx.Done()
		end(b)
	}}
}

const (
	farAhead = 1_000_000 // blocks that a lie is above the truth
	lagBy    = 20        // blocks that a node is behind
	setBack  = 50        // blocks that a chain is rolled back by
	resetBy  = 300       // blocks that a chain that was reset is below what it was
)

// nodeLatency is added to each answer of the REST API.
const nodeLatency = 20 * time.Millisecond

// well is a server that does not fail.
var well devnet.Fault

// nodesFail has servers of nodes fail, of all where none is named.
func nodesFail(name string, hold time.Duration, rest, comet devnet.Fault, nodes ...int) fault {
	return between(name, hold, func(b *bed) { b.setFaults(rest, comet, nodes...) }, func(b *bed) { b.setFaults(well, well, nodes...) })
}

// setFaults has nodes fail alike, all where none is named.
func (b *bed) setFaults(rest, comet devnet.Fault, nodes ...int) {
	rest.Latency = nodeLatency
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
	return between("a node is 20 blocks behind", hold, func(b *bed) { b.nodes[node].SetLag(lagBy) }, func(b *bed) { b.nodes[node].SetLag(0) })
}

// backBy takes the newest blocks of the chain away, once it is known what the node
// said of them.
func backBy(blocks int64) fault {
	return fault{name: fmt.Sprintf("%d blocks back", blocks), cause: func(ctx context.Context, b *bed) { b.fork(ctx, blocks) }}
}

// calm is a time in which nothing fails.
func calm(hold time.Duration) fault {
	return between("nothing", hold, func(*bed) {}, func(*bed) {})
}

// halt stops the making of blocks.
func halt(hold time.Duration) fault {
	return between("a halt", hold, func(b *bed) { b.chain.Halt() }, func(b *bed) { b.chain.Resume() })
}

// A node whose execution client hangs makes no block. Its /abci_info blocks for most
// of a period, as that of a real node does; /status answers at once.
const (
	hangPeriod = 12 * time.Second
	hangBlocks = 9 * time.Second
)

// hang has the execution clients of all nodes hang.
func hang(hold time.Duration) fault {
	return fault{name: "/abci_info blocks 9 s of 12", hold: hold, cause: func(ctx context.Context, b *bed) {
		b.chain.Halt()
		defer b.chain.Resume()
		for ctx.Err() == nil {
			b.setFaults(well, devnet.Fault{HangInfo: true})
			rig.Pause(ctx, hangBlocks)
			b.setFaults(well, well)
			rig.Pause(ctx, hangPeriod-hangBlocks)
		}
	}}
}

// failover kills the Redis that has the keys. The replicas use the one that takes
// over when they should work again.
var failover = fault{name: "the master dies", cause: func(ctx context.Context, b *bed) {
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

// redisServes reports whether no exchange of any replica with Redis fails within a
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
	return fault{name: "Redis killed", hold: hold, cause: func(ctx context.Context, b *bed) {
		b.redis.Kill()
		<-ctx.Done()
		b.redis.Restart(context.WithoutCancel(ctx))
		b.redis.Ready(context.WithoutCancel(ctx))
	}}
}

// last is the replica that faults are of. The first lives on, so that what it holds
// tells of leaks.
func (b *bed) last() *replica { return b.replicas[len(b.replicas)-1] }

// replicaKilled kills the last replica, which starts again after a time, if there is
// one.
func replicaKilled(hold time.Duration) fault {
	return fault{name: "a replica killed", hold: hold, cause: func(ctx context.Context, b *bed) {
		b.last().kill()
		if hold > 0 {
			<-ctx.Done()
			b.last().revive(context.WithoutCancel(ctx), "/healthz")
		}
	}}
}

// rolling replaces the replicas one after another, each when the one before takes requests
// again.
var rolling = fault{name: "a rolling restart", cause: func(ctx context.Context, b *bed) {
	for _, r := range b.replicas {
		b.note("replica %s is told to end, and starts again", r.URL)
		if b.ingress == "" { // clients that choose their replica lose nothing
			r.Renew(ctx)
		} else {
			r.down(false)
			r.Renew(ctx)
			r.up()
		}
		rig.Pause(ctx, time.Second)
	}
}}

// leftovers are what Redis has of a chain that is reset while no replica runs.
var leftovers = fault{name: "replicas start on what a chain left that was reset", cause: func(ctx context.Context, b *bed) {
	for _, r := range b.replicas {
		r.kill()
	}
	b.fork(ctx, resetBy)
	rig.Pause(ctx, time.Second)
	for _, r := range b.replicas {
		r.revive(ctx, "/readyz")
	}
}}

// leaseTime is that of the replicas.
const leaseTime = 3 * time.Second

// leasesHeld has a neighbour in Redis hold the leases of all answers.
func leasesHeld(hold time.Duration) fault {
	return fault{name: "a neighbour renews all leases", hold: hold, withstood: true, cause: func(ctx context.Context, b *bed) {
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
	for _, name := range []string{clientLink, nodeLink, redisLink, postgresLink} {
		for _, weather := range slices.Sorted(maps.Keys(weathers)) {
			all = append(all, linkFault(name, weather, hold))
		}
	}
	return all
}

func linkFault(name, weather string, hold time.Duration) fault {
	return between(name+": "+weather, hold, func(b *bed) { rig.Check(b.links[name].fail(weather)) }, func(b *bed) { b.links[name].mend() })
}

// stops are SIGSTOP of everything, one after another.
func stops(hold time.Duration) []fault {
	replica := stopped("a replica", hold, func(b *bed) []*rig.Process { return []*rig.Process{b.last().Process} })
	stop := replica.cause
	replica.cause = func(ctx context.Context, b *bed) {
		b.last().down(true)
		stop(ctx, b)
		b.last().up()
	}
	return []fault{
		stopped("a node", hold, func(b *bed) []*rig.Process { return b.relays[:2] }), // the chain goes on
		stopped("CometBFT", hold, func(b *bed) []*rig.Process { return b.relays[1:2] }).isWithstood(),
		stopped("Redis", hold, func(b *bed) []*rig.Process { return []*rig.Process{b.redis.Process} }).isWithstood(),
		replica,
	}
}

// stopped stops processes, and has them go on after a time.
func stopped(name string, hold time.Duration, of func(*bed) []*rig.Process) fault {
	signal := func(s syscall.Signal) func(*bed) {
		return func(b *bed) {
			for _, p := range of(b) {
				p.SignalAll(s)
			}
		}
	}
	return between(fmt.Sprintf("%s stopped for %v", name, hold.Round(time.Second)), hold, signal(syscall.SIGSTOP), signal(syscall.SIGCONT))
}
