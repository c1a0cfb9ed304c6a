package cache_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var live = cache.Policy{
	FreshBlocks: 1, StaleBlocks: 10, ErrorBlocks: 100,
	Fresh: 2 * time.Second, Stale: 20 * time.Second, StaleIfError: time.Hour, Keep: 2 * time.Hour,
}

// page is a body as long as a typical list.
var page = []byte(strings.Repeat(`{"operator_address":"storyvaloper1","tokens":"1024000000000","status":3},`, 60))

// newCache returns a cache and closes it at the end of the test. It registers metrics, except in benchmarks.
func newCache(t testing.TB, o cache.Options) *cache.Cache {
	t.Helper()
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	c := expect.Value(cache.New(o))(t)
	registries.Store(c, o.Registerer)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		registries.Delete(c)
	})
	return c
}

// registries maps each open cache to the registry of its metrics.
var registries sync.Map

// metric returns the sum of the samples of a cache's metric that have all these label values.
func metric(t testing.TB, c *cache.Cache, name string, values ...string) int {
	t.Helper()
	reg, _ := registries.Load(c)
	return int(expect.Metric(t, reg.(prometheus.Gatherer), "tipcache_cache_"+name, values...))
}

// waitForIdle waits for the flights and writes in the background.
func waitForIdle(t testing.TB, c *cache.Cache) {
	t.Helper()
	expect.EventuallyEqual(t, "no flight or write is in the background", func() int { return metric(t, c, "background_flights") + metric(t, c, "shared_writes") }, 0)
}

// entry returns an entry that was read now.
func entry(height int64, body string) *cache.Entry {
	return &cache.Entry{
		Content: cache.NewContent(200, "application/json", "", []byte(body), 0),
		Height:  height, ReadAt: time.Now(),
	}
}

// An originFunc is a Loader with a short queue.
type originFunc func(ctx context.Context, before *cache.Entry) (*cache.Entry, error)

func (o originFunc) Load(ctx context.Context, how cache.How) (*cache.Entry, error) {
	return o(ctx, how.Before)
}
func (originFunc) Expected(bool) time.Duration { return 0 }

// A loader is an origin with a queue. It gets the purpose of each read.
type loader struct {
	load  func(ctx context.Context, how cache.How) (*cache.Entry, error)
	queue queue
}

// A queue is the time that a read is expected to take, and one in the background.
type queue [2]time.Duration

func (l loader) Load(ctx context.Context, how cache.How) (*cache.Entry, error) {
	return l.load(ctx, how)
}

func (l loader) Expected(background bool) time.Duration {
	if background {
		return l.queue[1]
	}
	return l.queue[0]
}

// queued returns an origin with a queue.
func queued(o originFunc, q queue) loader { return loader{o.Load, q} }

// answer returns an origin that always returns the same content and height.
func answer(height int64, body []byte) originFunc {
	content := cache.NewContent(200, "application/json", "", body, 0)
	return func(context.Context, *cache.Entry) (*cache.Entry, error) {
		return &cache.Entry{Content: content, Height: height, ReadAt: time.Now()}, nil
	}
}

// mustGet calls Get and fails the test on an error. Any goroutine may call it.
func mustGet(t testing.TB, c *cache.Cache, q cache.Query, from originFunc) cache.Result {
	t.Helper()
	return mustLoad(t, c, q, from)
}

// mustLoad is mustGet with any Loader.
func mustLoad(t testing.TB, c *cache.Cache, q cache.Query, from cache.Loader) cache.Result {
	t.Helper()
	res, err := c.Get(t.Context(), q, from)
	if err != nil {
		t.Errorf("Get(%q): %v", q.Key, err)
	}
	return res
}

func TestNewRefusesNegativeOptions(t *testing.T) {
	if _, err := cache.New(cache.Options{Patience: -time.Second}); err == nil {
		t.Error("New with a negative Patience: error = nil, want one")
	}
}

func TestCloseEndsFlightsAndWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, cache.Options{})
		q := cache.Query{Key: "k", Policy: live, Tip: 100}
		mustGet(t, c, q, answer(100, page))
		var ended atomic.Int64
		endless := func(ctx context.Context, _ *cache.Entry) (*cache.Entry, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended.Add(1)
			return nil, ctx.Err()
		}
		later := q
		later.Tip = 105
		mustGet(t, c, later, endless)
		go func() {
			_, _ = c.Get(t.Context(), cache.Query{Key: "cold", Policy: live, Tip: 100}, originFunc(endless))
		}()
		synctest.Wait()

		expect.NoError(t, c.Close())
		if ended.Load() != 2 {
			t.Errorf("Close returned after %d flights, want 2", ended.Load())
		}
		if res := mustGet(t, c, q, nil); res.Outcome != cache.Hit {
			t.Errorf("Get of an entry in memory after Close: outcome = %v, want hit", res.Outcome)
		}
		if _, err := c.Get(t.Context(), cache.Query{Key: "new", Policy: live, Tip: 100}, originFunc(endless)); err == nil {
			t.Error("Get of a new key after Close: error = nil, want one")
		}
	})
}
