package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	growthSkew       = 0.9     // s of Zipf's law
	growthValidators = 1100    // times 999 heights are more than a million questions
	growthHeight     = 1000    // the devnet's newest
	warmers          = 16      // clients that fill the cache at once
	leastWarm        = 100_000 // requests
)

// growthConfig leaves room at the node, whose limits are not measured here, and
// keeps the access log from filling the disk.
const growthConfig = `cache: {memory: %dMiB}
chain: {in_flight: 64}
log: {sample: 0.01}
`

// A growthSize is how many keys there are, and how much of them may be kept.
type growthSize struct {
	keys   int
	budget int64 // MiB of cache.memory
}

// growthRun is one number of keys with a fresh tipcache, and what it came to.
type growthRun struct {
	growthSize
	operators []string
	tipcache  *rig.Replica
	zipf      *clients.Zipf

	asked       int       // to fill the cache
	hits        float64   // share of the requests
	took        []float64 // milliseconds of each hit
	entries     int
	bytes, peak float64 // what the cache says it holds, and the most so far
	resident    int64
}

// Growth measures hits and memory of more keys than fit.
func Growth(ctx context.Context, r *rig.Rig) error {
	sizes, warm, test := []growthSize{{1_000, 64}, {100_000, 64}, {1_000_000, 64}, {1_000_000, 256}}, 2*time.Minute, 20*time.Second
	if r.Short {
		sizes, warm, test = sizes[:2], 3*time.Second, time.Second
	}
	d, err := growthChain(r)
	if err != nil {
		return err
	}
	var runs []*growthRun
	for _, size := range sizes {
		g, err := startGrowth(ctx, r, d, size)
		if err == nil {
			err = g.run(ctx, warm, test)
		}
		if err != nil {
			return fmt.Errorf("%d keys: %w", size.keys, err)
		}
		runs = append(runs, g)
	}
	reportGrowth(r, runs)
	return overBudget(runs)
}

// growthChain has a validator for each of many questions.
func growthChain(r *rig.Rig) (*devnet.Devnet, error) {
	return r.Chain(devnet.Options{Seed: 1, Interval: -1, Validators: growthValidators, Delegators: 4})
}

// startGrowth starts a fresh tipcache before the chain.
func startGrowth(ctx context.Context, r *rig.Rig, d *devnet.Devnet, size growthSize, flags ...string) (*growthRun, error) {
	config, err := r.File("growth.yaml", fmt.Sprintf(growthConfig, size.budget))
	if err != nil {
		return nil, err
	}
	t, err := r.Replica(ctx, rig.Before(d, append(flags, "--config", config)...))
	return &growthRun{growthSize: size, operators: d.Validators(), tipcache: t, zipf: clients.NewZipf(growthSkew, size.keys)}, err
}

// run fills a fresh tipcache and measures it.
func (g *growthRun) run(ctx context.Context, warm, test time.Duration) error {
	defer g.tipcache.Stop()
	if err := g.fill(ctx, warm); err != nil {
		return err
	}
	if err := g.measure(ctx, test); err != nil {
		return err
	}
	if err := g.look(ctx); err != nil {
		return err
	}
	used, err := g.tipcache.Usage()
	g.resident = used.RSS
	return err
}

// ask has clients ask at once while there is to be more. A question is that of a
// rank: a validator at a height, which never changes.
func (g *growthRun) ask(ctx context.Context, n int, seed uint64, more func() bool, seen func(clients.Response) error) error {
	all, random := clients.NewCrowd(rig.Host(g.tipcache.URL), n), make([]*rand.Rand, n)
	defer all.Close()
	for i := range random {
		random[i] = rand.New(rand.NewPCG(seed+uint64(i), uint64(g.keys)))
	}
	return all.Ask(ctx, func(i int) ([]byte, bool) {
		rank := g.zipf.Draw(random[i])
		height := "X-Block-Height: " + strconv.Itoa(growthHeight-rank/growthValidators)
		return clients.Request(http.MethodGet, "/staking/validators/"+g.operators[rank%growthValidators], "", height), more()
	}, seen)
}

// fill asks three times as much as there are keys, and leastWarm at least, or
// for as long as the warm-up may last.
func (g *growthRun) fill(ctx context.Context, longest time.Duration) error {
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for rig.Pause(watching, 100*time.Millisecond) {
			_ = g.look(watching)
		}
	}()
	end, left := time.Now().Add(longest), atomic.Int64{}
	left.Store(int64(max(3*g.keys, leastWarm)))
	err := g.ask(ctx, warmers, 0, func() bool { return left.Add(-1) >= 0 && time.Now().Before(end) },
		func(clients.Response) error { g.asked++; return nil })
	stop()
	<-watched
	return err
}

// measure asks one question after another, so that none waits for another.
func (g *growthRun) measure(ctx context.Context, length time.Duration) error {
	asked, end := 0.0, time.Now().Add(length)
	err := g.ask(ctx, 1, warmers, func() bool { return time.Now().Before(end) }, func(a clients.Response) error {
		asked++
		if strings.Contains(a.Header.Get("Cache-Status"), "; hit") {
			g.took = append(g.took, figures.Milliseconds(a.Took))
		}
		return nil
	})
	g.hits = float64(len(g.took)) / asked
	return err
}

// look notes what is held.
func (g *growthRun) look(ctx context.Context) error {
	held, err := g.tipcache.Metrics(ctx)
	g.entries, g.bytes = int(held["tipcache_cache_memory_entries"]), held["tipcache_cache_memory_bytes"]
	g.peak = max(g.peak, g.bytes)
	return err
}

func reportGrowth(r *rig.Rig, runs []*growthRun) {
	var rows [][]string
	for _, g := range runs {
		best, p50 := g.zipf.Share(g.entries), figures.Median(g.took)
		rows = append(rows, figures.Row(
			g.budget, g.keys, g.asked, fmt.Sprintf("%.1f %%", 100*g.hits), fmt.Sprintf("%.1f %%", 100*best), fmt.Sprintf("%.3f", g.hits/best),
			fmt.Sprintf("%.3f", p50), fmt.Sprintf("%.3f", figures.Quantile(g.took, 0.99)), p50/figures.Median(runs[0].took),
			g.entries, figures.Mebibytes(g.bytes), figures.Mebibytes(g.peak), figures.Mebibytes(float64(g.resident)),
		))
	}
	r.Table(fmt.Sprintf("Growth: validators at heights, Zipf(%.1f)", growthSkew), []string{
		"cache.memory MiB", "keys", "warm-up", "hits", "best", "of best", "hit p50 ms", "p99 ms", "p50 / first", "entries", "MiB", "peak MiB", "RSS MiB",
	}, rows)
	r.Note("Hits are of one client on one connection, request after request. Best is what the most popular entries would hit, if as many as are held were just those.")
}

// overBudget is an error when a cache held more than it may, or a process more
// than a half of that again, and 100 MiB.
func overBudget(runs []*growthRun) error {
	for _, g := range runs {
		budget := g.budget << 20
		if g.peak > float64(budget) {
			return fmt.Errorf("with %d keys the cache held %.0f bytes of %d", g.keys, g.peak, budget)
		}
		if most := budget + budget/2 + 100<<20; g.resident > most {
			return fmt.Errorf("with %d keys and %d bytes to keep the process took %d; at most %d are expected", g.keys, budget, g.resident, most)
		}
	}
	return nil
}
