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

// A fault is a failure that lasts for a time or happens at once.
type fault struct {
	name string
	hold time.Duration // how long it lasts; 0 if it ends with cause or never

	// cause causes the failure, and repairs it when ctx ends after hold or with the run. Without hold, ctx does not end.
	cause func(ctx context.Context, b *bed)

	withstood bool // responses become fresh again while it lasts
	unnoticed bool // clients see no failure, and at most 1 % of the responses are not fresh
}

func (f fault) isWithstood() fault {
	f.withstood = true
	return f
}

// between returns a fault with a begin and an end that take no time.
func between(name string, hold time.Duration, begin, end func(b *bed)) fault {
	return fault{name: name, hold: hold, cause: func(ctx context.Context, b *bed) {
		begin(b)
		<-ctx.Done()
		end(b)
	}}
}

const (
	farAhead = 1_000_000 // blocks that a false height is above the true one
	lagBy    = 20        // blocks that a lagging node is behind
	setBack  = 50        // blocks of a long rollback
	resetBy  = 300       // blocks of a chain reset
)

// nodeLatency is added to each response of the REST API.
const nodeLatency = 20 * time.Millisecond

// well is the absence of a fault.
var well devnet.Fault

// nodesFail returns a fault of the servers of some nodes, or of all if none is named.
func nodesFail(name string, hold time.Duration, rest, comet devnet.Fault, nodes ...int) fault {
	return between(name, hold, func(b *bed) { b.setFaults(rest, comet, nodes...) }, func(b *bed) { b.setFaults(well, well, nodes...) })
}

// setFaults sets the faults of some nodes, or of all if none is named.
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

// backBy returns a rollback of the chain by a number of blocks.
func backBy(blocks int64) fault {
	return fault{name: fmt.Sprintf("%d blocks back", blocks), cause: func(ctx context.Context, b *bed) { b.fork(ctx, blocks) }}
}

// calm returns a time without a failure.
func calm(hold time.Duration) fault {
	return between("nothing", hold, func(*bed) {}, func(*bed) {})
}

// A node whose execution client hangs makes no block. Like a real node's, its /abci_info blocks for most of a period
// while /status answers at once.
const (
	hangPeriod = 12 * time.Second
	hangBlocks = 9 * time.Second
)

// hang returns a fault in which the execution clients of all nodes hang.
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

// failover kills the Redis master, and waits until all replicas use the new one.
var failover = fault{name: "the master dies", cause: func(ctx context.Context, b *bed) {
	b.failover.Master.Kill()
	rig.Check(rig.Eventually(ctx, b.failover.Taken))
	taken := time.Now()
	b.note("another master has taken over")
	for !b.redisServes(ctx) {
		if time.Since(taken) > freshWithin {
			rig.Check(fmt.Errorf("%v after another master has taken over, the replicas do not use it", freshWithin))
		}
	}
	b.note("all replicas use it")
}}

// redisServes reports whether for a second no exchange of any replica with Redis fails and no breaker is open.
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

// A server is a process that can be killed and restarted.
type server interface {
	Kill()
	Restart(ctx context.Context)
	Ready(ctx context.Context)
}

// killed returns a fault that kills a server, which starts again after hold.
func killed(name string, hold time.Duration, of func(*bed) server) fault {
	return fault{name: name, hold: hold, cause: func(ctx context.Context, b *bed) {
		s := of(b)
		s.Kill()
		<-ctx.Done()
		s.Restart(context.WithoutCancel(ctx))
		s.Ready(context.WithoutCancel(ctx))
	}}
}

// last returns the replica that faults affect. The first one keeps running, so that its resources reveal leaks.
func (b *bed) last() *replica { return b.replicas[len(b.replicas)-1] }

// rolling restarts the replicas one after another, each once the previous one is ready.
var rolling = fault{name: "a rolling restart", cause: func(ctx context.Context, b *bed) {
	for _, r := range b.replicas {
		if b.ingress != "" { // otherwise clients choose their replica, and lose no request
			r.down(false)
		}
		r.Renew(ctx)
		if b.ingress != "" {
			r.up()
		}
		rig.Pause(ctx, time.Second)
	}
}}

// leftovers resets the chain while no replica runs, so that Redis holds stale state.
var leftovers = fault{name: "replicas start with the Redis of a chain that was reset", cause: func(ctx context.Context, b *bed) {
	for _, r := range b.replicas {
		r.Kill()
	}
	b.fork(ctx, resetBy)
	rig.Pause(ctx, time.Second)
	for _, r := range b.replicas {
		r.Restart(ctx)
		r.Replica.Ready(ctx)
		r.up()
	}
}}

// leaseTime is the duration of the replicas' leases.
const leaseTime = 3 * time.Second

// leasesHeld makes an untrusted writer hold the leases of all entries.
func leasesHeld(hold time.Duration) fault {
	return fault{name: "another writer renews all leases", hold: hold, withstood: true, cause: func(ctx context.Context, b *bed) {
		for rig.Pause(ctx, leaseTime/30) {
			entries, err := b.redis.Keys(ctx, "tipcache:2:{*}").Result()
			if err != nil {
				continue // ctx has ended, or Redis is away
			}
			all := b.redis.Pipeline()
			for _, entry := range entries {
				all.Set(ctx, entry+":l", "another writer", leaseTime)
			}
			_, _ = all.Exec(ctx)
		}
	}}
}

// networkFaults returns a fault for each link and weather.
func networkFaults(hold time.Duration) (all []fault) {
	for _, name := range []string{clientLink, nodeLink, redisLink, postgresLink} {
		for _, weather := range slices.Sorted(maps.Keys(weathers)) {
			all = append(all, linkFault(name, weather, hold))
		}
	}
	return all
}

func linkFault(name, weather string, hold time.Duration) fault {
	return between(name+": "+weather, hold, func(b *bed) { rig.Check(b.links[name].fail(weathers[weather]...)) }, func(b *bed) { b.links[name].mend() })
}

// stops returns a SIGSTOP of each kind of process.
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

// stopped returns a fault that stops processes by SIGSTOP.
func stopped(name string, hold time.Duration, of func(*bed) []*rig.Process) fault {
	signal := func(s syscall.Signal) func(*bed) {
		return func(b *bed) {
			for _, p := range of(b) {
				p.SignalAll(s)
			}
		}
	}
	return between(name+" stopped", hold, signal(syscall.SIGSTOP), signal(syscall.SIGCONT))
}
