package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// plan is what one run does.
type plan struct {
	replicas, clients, keys int
	length, poll, blockTime time.Duration
	nodeLatency             time.Duration
}

// A bed is what the clients of a run ask, and what stands behind it.
type bed struct {
	*rig.Rig
	plan     plan
	chain    *devnet.Devnet
	judge    *devnet.Node // the same chain, asked by this program alone
	clock    *clients.Clock
	redis    *rig.Redis
	replicas []*replica
	keys     []string
	history  clients.History

	began time.Time
	mu    sync.Mutex
	notes []string
}

// A replica is one that a load balancer knows.
type replica struct {
	*rig.Replica
	ready  atomic.Bool // takes requests, as far as the balancer knows
	killed atomic.Bool // requests to it may be lost
}

// noticed is how long a replica that was told to end still takes requests: ten
// times the pause between two looks of the load balancer.
const noticed = time.Second

func newBed(ctx context.Context, r *rig.Rig, p plan) (b *bed, err error) {
	b = &bed{Rig: r, plan: p, began: time.Now()}
	b.chain, err = r.Chain(devnet.Options{Seed: 1, Interval: p.blockTime, Faults: devnet.Faults{Node: devnet.Fault{Latency: p.nodeLatency}}})
	if err != nil {
		return nil, err
	}
	b.clock = clients.NewClock(b.chain.Height)
	if b.judge, err = b.chain.AddNode(devnet.NodeOptions{}); err != nil {
		return nil, err
	}
	if b.keys, err = keys(b.chain.Validators(), p.keys); err != nil {
		return nil, err
	}
	if b.redis, err = r.Redis(ctx); err != nil {
		return nil, err
	}
	return b, b.startReplicas(ctx)
}

// keys are n distinct requests whose answers a block may change.
func keys(validators []string, n int) ([]string, error) {
	paths := []string{"/staking/validators", "/staking/pool", "/staking/validators?pagination.limit=5&status=BOND_STATUS_BONDED"}
	for _, v := range validators {
		paths = append(paths, "/staking/validators/"+v, "/staking/validators/"+v+"/delegations?pagination.limit=20")
	}
	if n > len(paths) {
		return nil, fmt.Errorf("%w: at most %d keys", rig.ErrUsage, len(paths))
	}
	return paths[:n], nil
}

// startReplicas starts each when the one before is ready.
func (b *bed) startReplicas(ctx context.Context) error {
	for range b.plan.replicas {
		t, err := b.Replica(ctx, rig.Serving{
			Node: b.chain.NodeURL(), Comet: b.chain.CometURL(),
			Flags: []string{"--shape", "node", "--redis", b.redis.URL()},
			Env:   []string{"TIPCACHE_LOG_LEVEL=warn", "TIPCACHE_HTTP_DRAIN_DELAY=" + noticed.String()},
		})
		if err != nil {
			return err
		}
		r := &replica{Replica: t}
		r.ready.Store(true)
		b.replicas = append(b.replicas, r)
	}
	return nil
}

// note keeps a line of what happened for the report.
func (b *bed) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, fmt.Sprintf("%5.1fs  ", time.Since(b.began).Seconds())+fmt.Sprintf(format, args...))
}

// drive lets the clients ask until ctx ends.
func (b *bed) drive(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { b.clock.Watch(ctx) })
	for _, r := range b.replicas {
		all.Go(func() { r.watch(ctx) })
	}
	polling := clients.Polling{
		Clients: b.plan.clients, Keys: b.keys, Pause: b.plan.poll, Clock: b.clock, Server: b.balance, History: &b.history,
	}
	polling.Run(ctx)
	all.Wait()
}

// balance returns the address for the next request of a client: that of its own
// replica, or of the next one that takes requests.
func (b *bed) balance(client int) string {
	for n := range b.replicas {
		if r := b.replicas[(client+n)%len(b.replicas)]; r.ready.Load() {
			return rig.Host(r.URL)
		}
	}
	return rig.Host(b.replicas[client%len(b.replicas)].URL)
}

// watch keeps ready true to the replica, as a load balancer's health check
// does: the loss of the node is no reason to send requests elsewhere.
func (r *replica) watch(ctx context.Context) {
	for rig.Pause(ctx, noticed/10) {
		_, err := rig.Get(ctx, r.Admin+"/readyz?exclude=node&exclude=store")
		r.ready.Store(err == nil && !r.killed.Load())
	}
}

// kill ends the last replica without a goodbye.
func (b *bed) kill() {
	r := b.replicas[len(b.replicas)-1]
	b.note("replica %s killed", r.URL)
	r.killed.Store(true)
	r.ready.Store(false)
	r.Kill()
}

// rollingRestart replaces the replicas one after another, each when the one
// before takes requests again.
func (b *bed) rollingRestart(ctx context.Context) error {
	for _, r := range b.replicas {
		b.note("replica %s told to end", r.URL)
		r.Signal(syscall.SIGTERM)
		if err := r.Wait(); err != nil {
			return err
		}
		b.note("replica %s ended, and starts again", r.URL)
		if err := r.Restart(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		if err := r.Ready(ctx); err != nil {
			return fmt.Errorf("it does not come back before the run ends: %w", err)
		}
		rig.Pause(ctx, time.Second)
	}
	return nil
}

// stopNode refuses connections to the node for a time.
func (b *bed) stopNode(ctx context.Context, d time.Duration) error {
	down := devnet.Fault{Outage: devnet.Refuse}
	b.note("node stopped")
	if err := b.chain.SetFaults(devnet.Faults{Node: down, Comet: down}); err != nil {
		return err
	}
	rig.Pause(ctx, d)
	b.note("node started")
	return b.chain.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: b.plan.nodeLatency}})
}

// stopRedis kills Redis and starts it, empty, after a time.
func (b *bed) stopRedis(ctx context.Context, d time.Duration) error {
	b.note("Redis killed")
	b.redis.Kill()
	rig.Pause(ctx, d)
	b.note("Redis started")
	ctx = context.WithoutCancel(ctx)
	if err := b.redis.Restart(ctx); err != nil {
		return err
	}
	return b.redis.Ready(ctx)
}
