package cache_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/leaktest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(silent{}) // it would tell of each connection that a test breaks
	leaktest.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// newCache returns a cache that is closed with the test.
func newCache(t testing.TB, o cache.Options) *cache.Cache {
	t.Helper()
	_, benchmark := t.(*testing.B) // whose callers set all that they measure
	if o.Registerer == nil && !benchmark {
		o.Registerer = prometheus.NewRegistry()
	}
	c, err := cache.New(o)
	expect.NoError(t, err)
	registries.Store(c, o.Registerer)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		registries.Delete(c)
	})
	return c
}

// registries are those of the caches under test.
var registries sync.Map

// metric sums the series of a cache's metric that have all these label values.
func metric(t testing.TB, c *cache.Cache, name string, values ...string) (sum int) {
	t.Helper()
	reg, _ := registries.Load(c)
	families, err := reg.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Error(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "tipcache_cache_"+name && labelled(m, values) {
				sum += int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return sum
}

func labelled(m *dto.Metric, values []string) bool {
	for _, value := range values {
		if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == value }) {
			return false
		}
	}
	return true
}

// idle waits for the flights and the writes in the background.
func idle(t testing.TB, c *cache.Cache) {
	t.Helper()
	expect.Eventually(t, "the background is idle", func() bool { return metric(t, c, "background_flights")+metric(t, c, "shared_writes") == 0 })
}

// entry returns an entry read now.
func entry(height int64, body string) *cache.Entry {
	return &cache.Entry{
		Content: cache.NewContent(200, "application/json", "", []byte(body), 0),
		Height:  height, ReadAt: time.Now(),
	}
}

// answer is an origin that always gives the same.
func answer(height int64, body []byte) cache.Origin {
	content := cache.NewContent(200, "application/json", "", body, 0)
	return func(context.Context, *cache.Entry) (*cache.Entry, error) {
		return &cache.Entry{Content: content, Height: height, ReadAt: time.Now()}, nil
	}
}

// mustGet may be called from any goroutine.
func mustGet(t testing.TB, c *cache.Cache, q cache.Query, origin cache.Origin) cache.Result {
	t.Helper()
	res, err := c.Get(t.Context(), q, origin)
	if err != nil {
		t.Errorf("Get(%q): %v", q.Key, err)
	}
	return res
}

func TestNewRefusesNegativeOptions(t *testing.T) {
	if _, err := cache.New(cache.Options{Patience: -time.Second}); err == nil {
		t.Error("negative Patience: error = nil, want one")
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
		go func() { _, _ = c.Get(t.Context(), cache.Query{Key: "cold", Policy: live, Tip: 100}, endless) }()
		synctest.Wait()

		expect.NoError(t, c.Close())
		if ended.Load() != 2 {
			t.Errorf("Close returned after %d flights, want 2", ended.Load())
		}
		if res := mustGet(t, c, q, nil); res.Outcome != cache.Hit {
			t.Errorf("memory gives %v after Close, want a hit", res.Outcome)
		}
		if _, err := c.Get(t.Context(), cache.Query{Key: "new", Policy: live, Tip: 100}, endless); err == nil {
			t.Error("Get after Close returned an entry, want an error")
		}
	})
}

// must fails the test if err is not nil.
