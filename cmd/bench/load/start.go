package load

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Start is the part about the beginning of a process.
func Start() rig.Part {
	return rig.Part{
		Name:  "start",
		About: "time from exec to the first 200 of /readyz, and what an idle tipcache holds",
		Run:   runStart,
	}
}

const (
	starts  = 10
	idleFor = 5 * time.Second
)

func runStart(ctx context.Context, r *rig.Rig) error {
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
		t, err := r.Replica(ctx, rig.Serving{Node: d.NodeURL(), Comet: d.CometURL()})
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
		[][]string{{
			"exec to /readyz 200", figures.Decimal(figures.Median(took)), figures.Decimal(figures.Quantile(took, 1)),
			figures.Mebibytes(float64(idle.RSS)), fmt.Sprint(idle.FDs),
		}})
	r.Note("Idle is %v after the last start.", idleFor)
	return nil
}
