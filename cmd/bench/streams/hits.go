package streams

import (
	"context"
	"fmt"
	"net/http"
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
func besideHits(ctx context.Context, r *rig.Rig, n int) {
	d := r.Chain(devnet.Options{Seed: 1, Interval: hitBlocks})
	own, other := replica(ctx, r, d), replica(ctx, r, d)
	cases := []*hitCase{{name: "no streams"}, {name: "streams of another replica", streams: other}, {name: "streams of this replica", streams: own}}
	r.Interleave("streams", len(cases), func(i int) { cases[i].run(ctx, rig.Host(own.URL), n) })
	var rows [][]string
	for _, c := range cases {
		rows = append(rows, figures.Row(c.name, figures.Median(c.p50), figures.Median(c.p99)))
	}
	r.Table(fmt.Sprintf("hits beside %d streams: %d clients that pause %v between two, blocks of %v, medians of %d interleaved rounds", n, hitClients, hitInterval, hitBlocks, r.Rounds),
		[]string{"", "p50 ms", "p99 ms"}, rows)
}

// A hitCase is hits beside streams.
type hitCase struct {
	name     string
	streams  *rig.Replica // nil: none
	p50, p99 []float64    // milliseconds, one for each round
}

// run asks for an answer at hand for a while, with n streams open.
func (c *hitCase) run(ctx context.Context, asked string, n int) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if c.streams != nil {
		follow(ctx, rig.Host(c.streams.URL), n)
	}
	crowd, end := clients.NewCrowd(asked, hitClients), time.Now().Add(hitTime)
	defer crowd.Close()
	var took []float64
	rig.Check(crowd.Ask(ctx, func(int) ([]byte, bool) {
		return clients.Request(http.MethodGet, "/staking/params", ""), rig.Pause(ctx, hitInterval) && time.Now().Before(end)
	}, func(a clients.Response) error { took = append(took, figures.Milliseconds(a.Took)); return nil }))
	c.p50, c.p99 = append(c.p50, figures.Median(took)), append(c.p99, figures.Quantile(took, 0.99))
}
