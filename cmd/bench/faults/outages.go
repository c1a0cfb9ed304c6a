package faults

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// kill ends a replica without a goodbye.
func (b *bed) kill(i int) {
	r := b.replicas[i]
	b.note("replica %s killed", r.URL)
	r.mu.Lock()
	r.downs = append(r.downs, span{from: time.Now()})
	r.mu.Unlock()
	r.down.Store(true)
	r.ready.Store(false)
	r.Kill()
}

// revive starts a replica that was killed. It is back when ready says so.
func (r *replica) revive(ctx context.Context, ready func(context.Context) error) error {
	if err := r.Restart(ctx); err != nil {
		return err
	}
	if err := ready(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.downs[len(r.downs)-1].to = time.Now()
	r.mu.Unlock()
	r.down.Store(false)
	return nil
}

// lost tells whether a request may be without an answer: its replica was killed
// meanwhile, or the client is behind a link that may have failed.
func (b *bed) lost(a *clients.Answer) bool {
	for _, r := range b.replicas {
		if slices.Contains(r.addrs[1:], a.Server) {
			return true
		}
		if r.addrs[0] == a.Server && r.killedDuring(a) {
			return true
		}
	}
	return false
}

func (r *replica) killedDuring(a *clients.Answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.downs, func(s span) bool {
		return (a.Sent.Before(s.to) || a.Sent.Before(s.from.Add(noticed))) && a.Came().After(s.from)
	})
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
