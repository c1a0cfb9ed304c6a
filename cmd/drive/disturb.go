package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// disturb fails what the plan names, a third into the run, and mends it.
func (b *testbed) disturb(ctx context.Context, p plan, m *measurement) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.disturbance(ctx, p, m) }()
	return done
}

func (b *testbed) disturbance(ctx context.Context, p plan, m *measurement) error {
	if !sleep(ctx, p.length/3) {
		return nil
	}
	if p.killReplica {
		victim := b.replicas[len(b.replicas)-1]
		m.note("replica %s killed", victim.url)
		victim.kill()
	}
	if p.rolling {
		if err := b.rollingRestart(ctx, m); err != nil {
			return err
		}
	}
	if p.stopNode > 0 {
		if err := b.nodeOutage(ctx, p, m); err != nil {
			return err
		}
	}
	if p.stopRedis > 0 {
		return b.redisOutage(ctx, p, m)
	}
	return nil
}

// rollingRestart replaces the replicas one after another, each when the one
// before takes requests again.
func (b *testbed) rollingRestart(ctx context.Context, m *measurement) error {
	for _, r := range b.replicas {
		m.note("replica %s told to end", r.url)
		r.terminate()
		if err := r.wait(); err != nil {
			return fmt.Errorf("replica %s: %w", r.url, err)
		}
		m.note("replica %s ended, and starts again", r.url)
		if err := r.start(ctx); err != nil {
			return fmt.Errorf("replica %s does not come back before the run ends: %w", r.url, err)
		}
		sleep(ctx, time.Second)
	}
	return nil
}

func (b *testbed) nodeOutage(ctx context.Context, p plan, m *measurement) error {
	down := devnet.Fault{Outage: devnet.Refuse}
	m.note("node stopped")
	if err := b.devnet.SetFaults(devnet.Faults{Node: down, Comet: down}); err != nil {
		return err
	}
	sleep(ctx, p.stopNode)
	m.note("node started")
	return b.devnet.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: p.nodeLatency}})
}

func (b *testbed) redisOutage(ctx context.Context, p plan, m *measurement) error {
	m.note("Redis killed")
	_ = b.redisCmd.Process.Kill()
	_ = b.redisCmd.Wait()
	sleep(ctx, p.stopRedis)
	m.note("Redis started")
	if err := b.runRedis(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("restart Redis: %w", err)
	}
	return nil
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
