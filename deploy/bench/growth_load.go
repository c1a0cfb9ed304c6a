package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// growthResult is what one number of keys came to.
type growthResult struct {
	keys, warmed int
	hits, best   float64   // shares of the requests
	took         []float64 // milliseconds of each hit
	entries      int
	bytes, peak  float64 // what the cache says it holds
	rss          float64
}

const (
	warmers   = 16      // clients that fill the cache at once
	leastWarm = 100_000 // requests
)

// grow fills a fresh tipcache and measures it.
func (b *bench) grow(ctx context.Context, d *devnetProc, config string, g growthRun) (r growthResult, err error) {
	if g.tipcache, err = b.tipcache(ctx, d, "--config", config); err != nil {
		return r, err
	}
	defer g.tipcache.stop()
	g.zipf = newZipf(growthSkew, g.keys)
	r = growthResult{keys: g.keys}
	if r.warmed, err = g.fill(ctx); err != nil {
		return r, err
	}
	if err := g.measure(ctx, &r); err != nil {
		return r, err
	}
	held, err := g.held(ctx)
	if err != nil {
		return r, err
	}
	r.entries, r.bytes, r.peak, r.best = int(held[cacheEntries]), held[cacheBytes], g.peak, g.zipf.share(int(held[cacheEntries]))
	used, err := g.tipcache.usage()
	r.rss = float64(used.rss)
	return r, err
}

// fill asks three times as much as there are keys, and leastWarm at least, or
// for as long as the warm-up may last.
func (g *growthRun) fill(ctx context.Context) (asked int, err error) {
	var left atomic.Int64
	all := int64(max(3*g.keys, leastWarm))
	left.Store(all)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { g.watch(watching) })
	end := time.Now().Add(g.warm)
	clients, filling := errgroup.WithContext(ctx)
	for i := range warmers {
		clients.Go(func() error {
			return g.client(filling, uint64(i), func(reply) bool { return left.Add(-1) >= 0 && time.Now().Before(end) })
		})
	}
	err = clients.Wait()
	stop()
	watch.Wait()
	return int(all - max(0, left.Load())), err
}

// client draws questions and asks them until more says that it was enough.
func (g *growthRun) client(ctx context.Context, seed uint64, more func(reply) bool) error {
	w, stop, err := dialWire(ctx, g.tipcache.url)
	if err != nil {
		return err
	}
	defer stop()
	random := rand.New(rand.NewPCG(seed, uint64(g.keys)))
	for {
		path, height := g.question(g.zipf.draw(random))
		answer, err := w.get(path, height)
		switch {
		case err != nil:
			return fmt.Errorf("%s at %d: %w", path, height, err)
		case answer.status != http.StatusOK:
			return fmt.Errorf("%s at %d: status %d", path, height, answer.status)
		case !more(answer):
			return nil
		}
	}
}

// measure asks one question after another, so that none waits for another.
func (g *growthRun) measure(ctx context.Context, r *growthResult) error {
	asked, end := 0, time.Now().Add(g.test)
	err := g.client(ctx, warmers, func(a reply) bool {
		asked++
		if a.hit {
			r.took = append(r.took, milliseconds(a.took))
		}
		return time.Now().Before(end)
	})
	r.hits = float64(len(r.took)) / float64(asked)
	return err
}

// watch notes the most bytes held, until ctx ends.
func (g *growthRun) watch(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = g.held(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (g *growthRun) held(ctx context.Context) (samples, error) {
	values, err := g.tipcache.metrics(ctx)
	g.peak = max(g.peak, values[cacheBytes])
	return values, err
}
