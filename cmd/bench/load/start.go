// Package load measures tipcache alone: what it costs to start, to hold much, to
// answer from Redis or from a large collection store, to index a chain, and to be
// used for a long time.
package load

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	starts  = 10
	idleFor = 5 * time.Second
)

// Start measures the beginning of a process.
func Start(ctx context.Context, r *rig.Rig) error {
	d, err := r.Chain(devnet.Options{Seed: 1})
	if err != nil {
		return err
	}
	times := starts
	if r.Short {
		times = 2
	}
	var took []float64
	var idle rig.Usage
	for i := range times {
		began := time.Now()
		t, err := r.Replica(ctx, rig.Before(d))
		if err != nil {
			return err
		}
		took = append(took, figures.Milliseconds(time.Since(began)))
		if i == times-1 {
			rig.Pause(ctx, idleFor)
			if idle, err = t.Usage(); err != nil {
				return err
			}
		}
		t.Stop()
	}
	r.Table(fmt.Sprintf("start: %d times, the node being up", times),
		[]string{"", "median ms", "max ms", "idle RSS MiB", "file descriptors"},
		[][]string{figures.Row("exec to /readyz 200", figures.Median(took), figures.Quantile(took, 1), figures.Mebibytes(float64(idle.RSS)), idle.FDs)})
	r.Note("Idle is %v after the last start.", idleFor)
	return nil
}
