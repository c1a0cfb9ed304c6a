// Package load measures tipcache alone: its start, a full cache, and a large collection store.
package load

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	starts     = 10
	idleFor    = 5 * time.Second
	validators = 1100 // times 999 heights are more than a million keys
	newest     = 1000 // the simulated chain's height
	askers     = 16   // clients that fill the cache at once
)

// config raises the limits of requests to the node, which are not measured here, and keeps the access log from filling
// the disk.
const config = `cache: {memory: %dMiB}
chain: {in_flight: 64}
log: {access: 0.01}
`

// Start measures an empty start and a full cache.
func Start(ctx context.Context, r *rig.Rig) {
	keys := rig.Sized(r, 1_000_000, 1000)
	d := r.Chain(devnet.Options{Seed: 1, Interval: -1, Validators: validators, Delegators: 4})
	empty(ctx, r, d, rig.Sized(r, starts, 2), rig.Sized(r, idleFor, time.Second))
	full(ctx, r, d, keys, 64)
}

// empty measures starts without a Redis.
func empty(ctx context.Context, r *rig.Rig, d *devnet.Devnet, times int, idle time.Duration) {
	var took []float64
	var held rig.Usage
	for range times {
		began := time.Now()
		t := r.Replica(ctx, rig.Before(d))
		took = append(took, figures.Milliseconds(time.Since(began)))
		if len(took) == times {
			rig.Pause(ctx, idle)
			held = rig.Must(t.Usage())
		}
		t.Stop()
	}
	r.Table(fmt.Sprintf("start: %d times, with the node running; idle after %v", times, idle), []string{"", "median ms", "idle RSS MiB"},
		[][]string{figures.Row("exec to /readyz 200", figures.Median(took), figures.Mebibytes(float64(held.RSS)))})
}

// full fills a replica with more keys than its memory budget (MiB) can hold. It fails if the cache exceeds the budget,
// or the process 1.5 times the budget plus 100 MiB.
func full(ctx context.Context, r *rig.Rig, d *devnet.Devnet, keys, budget int) {
	t := r.Replica(ctx, rig.Before(d, "--config", r.File("full.yaml", fmt.Sprintf(config, budget))))
	ask(ctx, t, d, keys, 3*keys)
	held, used := rig.Must(t.Metrics(ctx)), rig.Must(t.Usage())
	entries, bytes := held["tipcache_cache_memory_entries"], held["tipcache_cache_memory_bytes"]
	r.Table(fmt.Sprintf("full: %d keys by Zipf(0.9), cache.memory: %dMiB", keys, budget), []string{"entries", "MiB", "bytes per entry", "RSS MiB"},
		[][]string{figures.Row(fmt.Sprint(entries), figures.Mebibytes(bytes), bytes/entries, figures.Mebibytes(float64(used.RSS)))})
	if most := rig.MemoryBound(budget, 0); bytes > float64(budget<<20) || used.RSS > most {
		rig.Check(fmt.Errorf("the cache holds %.0f bytes, and the process %d; the limit is %d", bytes, used.RSS, most))
	}
}

// ask sends n requests for random keys. A key is a validator at a height, which never changes.
func ask(ctx context.Context, t *rig.Replica, d *devnet.Devnet, keys, n int) {
	all, operators := clients.NewCrowd(rig.Host(t.URL), askers), d.Validators()
	left := atomic.Int64{}
	left.Store(int64(n))
	defer all.Close()
	rig.Check(all.SendAll(ctx, func() ([]byte, bool) {
		rank := clients.Zipf(keys)
		return clients.Request(http.MethodGet, "/staking/validators/"+operators[rank%validators], "", fmt.Sprint("X-Block-Height: ", newest-rank/validators)), left.Add(-1) >= 0
	}, func(clients.Response) error { return nil }))
}
