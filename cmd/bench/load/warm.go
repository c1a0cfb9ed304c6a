package load

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

const (
	warmKeys  = 100_000
	warmLeast = 0.8              // of the hits, from memory
	warmTest  = 10 * time.Second // from when the replica is ready
	noteTime  = 35 * time.Second // in which a replica has noted its most used keys
)

// Warm measures where a replica that has just started finds its answers.
func Warm(ctx context.Context, r *rig.Rig) error {
	size := growthSize{warmKeys, 256}
	if r.Short {
		size.keys = 1000
	}
	d, err := growthChain(r)
	if err != nil {
		return err
	}
	shared, err := r.Redis(ctx)
	if err != nil {
		return err
	}
	first, err := startGrowth(ctx, r, d, size, "--redis", shared.URL())
	if err != nil {
		return err
	}
	if err := first.fill(ctx, time.Minute); err != nil {
		return err
	}
	rig.Pause(ctx, noteTime)
	began := time.Now()
	second, err := startGrowth(ctx, r, d, size, "--redis", shared.URL())
	if err != nil {
		return err
	}
	return second.reportWarm(ctx, r, time.Since(began))
}

// reportWarm asks the replica for its first seconds, and says where the answers
// came from.
func (g *growthRun) reportWarm(ctx context.Context, r *rig.Rig, ready time.Duration) error {
	taken, err := g.tipcache.Metrics(ctx)
	if err != nil {
		return err
	}
	end := time.Now().Add(warmTest)
	err = g.ask(ctx, warmers, 100, func() bool { return time.Now().Before(end) }, func(clients.Response) error { return nil })
	if err != nil {
		return err
	}
	all, memory, fromRedis, err := g.tipcache.CacheRequests(ctx)
	share := memory / (memory + fromRedis)
	r.Table(fmt.Sprintf("warm: the first %v of a replica, %d keys by Zipf(%.1f)", warmTest, g.keys, growthSkew),
		[]string{"ready after", "taken over", "requests", "from memory", "from Redis", "memory's share of the hits"},
		[][]string{figures.Row(ready.Round(time.Millisecond), fmt.Sprint(taken["tipcache_cache_warmed_total"]), fmt.Sprint(all), fmt.Sprint(memory), fmt.Sprint(fromRedis), fmt.Sprintf("%.3f", share))})
	if err == nil && share < warmLeast {
		err = fmt.Errorf("%.3f of the hits came from memory, want %.1f", share, warmLeast)
	}
	return err
}
