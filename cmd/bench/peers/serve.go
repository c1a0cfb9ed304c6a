package peers

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// served is what a run of requests came to: requests per second, p50 and p99 in milliseconds,
// and CPU seconds per 100,000 requests of each process.
type served []float64

// Places in served.
const servedP50, servedCPU = 1, 3

// serve has a crowd send each of the requests once.
func serve(ctx context.Context, crowd clients.Crowd, requests [][]byte, processes ...*rig.Process) served {
	var (
		next  atomic.Int64
		waits []float64
		took  time.Duration
		n     = float64(len(requests))
	)
	spent := rig.Spent(func() {
		began := time.Now()
		rig.Check(crowd.Ask(ctx, func(int) (request []byte, ok bool) {
			i := int(next.Add(1)) - 1
			if i < len(requests) {
				request = requests[i]
			}
			return request, i < len(requests)
		}, func(a clients.Response) error { waits = append(waits, figures.Milliseconds(a.Took)); return nil }))
		took = time.Since(began)
	}, processes...)
	s := served{n / took.Seconds(), figures.Median(waits), figures.Quantile(waits, 0.99)}
	for _, cpu := range spent {
		s = append(s, cpu.Seconds()*1e5/n)
	}
	return s
}

// column is one of the figures of each run.
func column(runs []served, of int) []float64 {
	return figures.Each(runs, func(s served) float64 { return s[of] })
}
