package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"
)

func startPart() part {
	return part{
		name:  "start",
		about: "time from exec to the first 200 of /readyz, and what an idle tipcache holds",
		run:   runStart,
	}
}

const (
	starts   = 10
	idleFor  = 5 * time.Second
	lookEach = time.Millisecond // how often /readyz is asked
)

func runStart(ctx context.Context, b *bench) error {
	d, err := b.devnet(ctx)
	if err != nil {
		return err
	}
	times := starts
	if b.short {
		times = 2
	}
	var took []float64
	var idle usage
	for i := range times {
		t, at, err := b.startOnce(ctx, d)
		if err != nil {
			return err
		}
		took = append(took, milliseconds(at))
		if i == times-1 {
			if idle, err = t.idle(ctx); err != nil {
				return err
			}
		}
		t.stop()
	}
	b.out.table(fmt.Sprintf("start: %d times, the node being up", times),
		[]string{"", "median ms", "max ms", "idle RSS MiB", "file descriptors"},
		[][]string{{
			"exec to /readyz 200", decimal(median(took)), decimal(quantile(took, 1)),
			decimal(float64(idle.rss) / (1 << 20)), fmt.Sprint(idle.fds),
		}})
	b.out.note("Idle is %v after the last start.", idleFor)
	return nil
}

// startOnce starts a tipcache and says how long it took to be ready.
func (b *bench) startOnce(ctx context.Context, d *devnetProc) (*tipcacheProc, time.Duration, error) {
	began := time.Now()
	t, err := b.launch(ctx, d)
	if err != nil {
		return nil, 0, err
	}
	for ctx.Err() == nil && time.Since(began) < 30*time.Second {
		if status, err := statusOf(ctx, t.admin+"/readyz"); err == nil && status == http.StatusOK {
			return t, time.Since(began), nil
		}
		time.Sleep(lookEach)
	}
	return nil, math.MaxInt64, fmt.Errorf("tipcache is not ready after %v: %w%s", time.Since(began), ctx.Err(), t.lastWords())
}

// idle is what the process holds when nobody has asked anything for a while.
func (t *tipcacheProc) idle(ctx context.Context) (usage, error) {
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return usage{}, ctx.Err()
	}
	return t.usage()
}
