package streams

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	hitClients  = 8
	hitInterval = 2 * time.Millisecond // between the answer and the next request of a client
	hitTime     = 6 * time.Second      // of one run
	hitBlocks   = 2 * time.Second      // between two blocks
)

// besideHits measures how long hits take without streams, while n streams of
// another replica get an event at every block, and while n of their own do. What
// the first two differ by is the machine's: the streams' readers run on it, too.
func besideHits(ctx context.Context, r *rig.Rig, n int) error {
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: hitBlocks})
	if err != nil {
		return err
	}
	var replicas [2]*rig.Replica
	for i := range replicas {
		if replicas[i], err = replica(ctx, r, d); err != nil {
			return err
		}
		defer replicas[i].Stop()
	}
	asked := rig.Host(replicas[0].URL)
	cases := []*hitCase{{name: "no streams"}, {name: "streams of another replica", streams: rig.Host(replicas[1].URL)}, {name: "streams of this replica", streams: asked}}
	if err := r.Interleave("streams", len(cases), func(i int) error { return cases[i].run(ctx, asked, n) }); err != nil {
		return err
	}
	var rows [][]string
	for _, c := range cases {
		rows = append(rows, figures.Row(c.name, figures.Median(c.p50), figures.Median(c.p99)))
	}
	r.Table(fmt.Sprintf("hits beside %d streams: %d clients that pause %v between two, blocks of %v, medians of %d interleaved rounds", n, hitClients, hitInterval, hitBlocks, r.Rounds),
		[]string{"", "p50 ms", "p99 ms"}, rows)
	return nil
}

// A hitCase is hits beside streams.
type hitCase struct {
	name     string
	streams  string    // address of their server; "": none
	p50, p99 []float64 // milliseconds, one for each round
}

// run asks for hits while n streams are open.
func (c *hitCase) run(ctx context.Context, asked string, n int) error {
	if c.streams != "" {
		f, err := follow(ctx, c.streams, streamedPath, n)
		if err != nil {
			return err
		}
		defer f.close()
		if err := f.begun(ctx); err != nil {
			return err
		}
	}
	took, err := hits(ctx, asked)
	c.p50, c.p99 = append(c.p50, figures.Median(took)), append(c.p99, figures.Quantile(took, 0.99))
	return err
}

// hits asks for an answer at hand for a while, and returns the times that it
// took, in milliseconds.
func hits(ctx context.Context, addr string) ([]float64, error) {
	crowd := clients.NewCrowd(addr, hitClients)
	defer crowd.Close()
	took := make([][]float64, hitClients)
	end := time.Now().Add(hitTime)
	err := crowd.All(func(i int, c *clients.Conn) error {
		for time.Now().Before(end) {
			a, err := c.Get(ctx, "/staking/params")
			if err != nil {
				return err
			}
			took[i] = append(took[i], figures.Milliseconds(a.Took))
			rig.Pause(ctx, hitInterval)
		}
		return nil
	})
	return slices.Concat(took...), err
}
