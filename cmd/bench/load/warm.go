package load

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Warm is the part about what a replica that has just started has in memory.
func Warm() rig.Part {
	return rig.Part{
		Name:  "warm",
		About: "where a replica that has just started finds its answers, beside one that has served for a while",
		Needs: []rig.Tool{rig.RedisTool},
		Run:   runWarm,
	}
}

const (
	warmKeys  = 100_000
	warmLeast = 0.8              // of the hits, from memory
	warmTest  = 10 * time.Second // from when the replica is ready
	noteTime  = 35 * time.Second // in which a replica has noted its most used keys
)

func runWarm(ctx context.Context, r *rig.Rig) error {
	keys, note := warmKeys, noteTime
	if r.Short {
		keys, note = 1000, noteTime
	}
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: -1, Validators: growthValidators, Delegators: 4})
	if err != nil {
		return err
	}
	shared, err := r.Redis(ctx)
	if err != nil {
		return err
	}
	config, err := r.File("warm.yaml", fmt.Sprintf(growthConfig, 256))
	if err != nil {
		return err
	}
	start := func() (*growthRun, error) {
		g := &growthRun{growthSize: growthSize{keys, 256}, warm: time.Minute, operators: d.Validators(), zipf: clients.NewZipf(growthSkew, keys)}
		g.tipcache, err = r.Replica(ctx, rig.Serving{Node: d.NodeURL(), Comet: d.CometURL(), Flags: []string{"--config", config, "--redis", shared.URL()}})
		return g, err
	}
	first, err := start()
	if err != nil {
		return err
	}
	if err := first.fill(ctx); err != nil {
		return err
	}
	rig.Pause(ctx, note)
	began := time.Now()
	second, err := start()
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
	asking, asked := errgroup.WithContext(ctx)
	for i := range warmers {
		asking.Go(func() error {
			return g.client(asked, uint64(100+i), func(clients.Response) bool { return time.Now().Before(end) })
		})
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	all, memory, err := g.tipcache.CacheRequests(ctx, "memory")
	if err != nil {
		return err
	}
	_, fromRedis, err := g.tipcache.CacheRequests(ctx, "shared")
	share := memory / (memory + fromRedis)
	r.Table(fmt.Sprintf("warm: the first %v of a replica, %d keys by Zipf(%.1f)", warmTest, g.keys, growthSkew),
		[]string{"ready after", "taken over", "requests", "from memory", "from Redis", "memory's share of the hits"},
		[][]string{{ready.Round(time.Millisecond).String(), fmt.Sprint(taken["tipcache_cache_warmed_total"]), fmt.Sprint(all), fmt.Sprint(memory), fmt.Sprint(fromRedis), fmt.Sprintf("%.3f", share)}})
	if err == nil && share < warmLeast {
		err = fmt.Errorf("%.3f of the hits came from memory, want %.1f", share, warmLeast)
	}
	return err
}
