// Package load measures tipcache alone: its start, a full cache, a start with a warm Redis, and a large collection
// store.
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
	warmTest   = 10 * time.Second
	warmLeast  = 0.8              // minimum share of hits from memory within warmTest
	noteTime   = 35 * time.Second // within which a replica has recorded its most used keys
)

// config raises the limits of requests to the node, which are not measured here, and keeps the access log from filling
// the disk.
const config = `cache: {memory: %dMiB}
chain: {in_flight: 64}
log: {access: 0.01}
`

// Start measures an empty start, a full cache, and a start with a warm Redis.
func Start(ctx context.Context, r *rig.Rig) {
	keys := rig.Sized(r, 1_000_000, 1000)
	d := r.Chain(devnet.Options{Seed: 1, Interval: -1, Validators: validators, Delegators: 4})
	empty(ctx, r, d, rig.Sized(r, starts, 2), rig.Sized(r, idleFor, time.Second))
	full(ctx, r, d, keys, 64)
	warm(ctx, r, d, keys/10)
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
func full(ctx context.Context, r *rig.Rig, d *devnet.Devnet, keys, budget int, flags ...string) rig.Serving {
	before := rig.Before(d, append(flags, "--config", r.File("full.yaml", fmt.Sprintf(config, budget)))...)
	t := r.Replica(ctx, before)
	left := atomic.Int64{}
	left.Store(int64(3 * keys))
	ask(ctx, t, d, keys, askers, func() bool { return left.Add(-1) >= 0 })
	held, used := rig.Must(t.Metrics(ctx)), rig.Must(t.Usage())
	entries, bytes := held["tipcache_cache_memory_entries"], held["tipcache_cache_memory_bytes"]
	r.Table(fmt.Sprintf("full: %d keys by Zipf(0.9), cache.memory: %dMiB", keys, budget), []string{"entries", "MiB", "bytes per entry", "RSS MiB"},
		[][]string{figures.Row(fmt.Sprint(entries), figures.Mebibytes(bytes), bytes/entries, figures.Mebibytes(float64(used.RSS)))})
	if most := rig.MemoryBound(budget, 0); bytes > float64(budget<<20) || used.RSS > most {
		rig.Check(fmt.Errorf("the cache holds %.0f bytes, and the process %d; the limit is %d", bytes, used.RSS, most))
	}
	return before
}

// warm starts a replica next to a full one with the same Redis, and reports the source of its first responses.
func warm(ctx context.Context, r *rig.Rig, d *devnet.Devnet, keys int) {
	before, length := full(ctx, r, d, keys, 256, "--redis", r.Redis(ctx).URL()), rig.Sized(r, warmTest, time.Second)
	rig.Pause(ctx, rig.Sized(r, noteTime, 0))
	t := r.Replica(ctx, before)
	end := time.Now().Add(length)
	ask(ctx, t, d, keys, askers/2, func() bool { return time.Now().Before(end) })
	all, memory, shared := t.CacheRequests(ctx)
	share := memory / (memory + shared)
	r.Table(fmt.Sprintf("warm: the first %v of a second replica", length),
		[]string{"requests", "from memory", "from Redis", "memory's share of the hits"},
		[][]string{figures.Row(fmt.Sprint(all), fmt.Sprint(memory), fmt.Sprint(shared), fmt.Sprintf("%.3f", share))})
	if share < warmLeast && !r.Short {
		rig.Check(fmt.Errorf("%.3f of the hits came from memory, want %.1f", share, warmLeast))
	}
}

// ask requests random keys while more returns true. A key is a validator at a height, which never changes.
func ask(ctx context.Context, t *rig.Replica, d *devnet.Devnet, keys, n int, more func() bool) {
	all, operators := clients.NewCrowd(rig.Host(t.URL), n), d.Validators()
	defer all.Close()
	rig.Check(all.SendAll(ctx, func() ([]byte, bool) {
		rank := clients.Zipf(keys)
		return clients.Request(http.MethodGet, "/staking/validators/"+operators[rank%validators], "", fmt.Sprint("X-Block-Height: ", newest-rank/validators)), more()
	}, func(clients.Response) error { return nil }))
}
