package cache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tipcache/tipcache/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCache returns a cache that is closed with the test.
func newCache(t testing.TB, o cache.Options) *cache.Cache {
	t.Helper()
	c, err := cache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
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
	if _, err := cache.New(cache.Options{Lease: -time.Second}); err == nil {
		t.Error("a negative lease was accepted")
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

		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if ended.Load() != 2 {
			t.Errorf("Close returned after %d of 2 flights", ended.Load())
		}
		if res := mustGet(t, c, q, nil); res.Outcome != cache.Hit {
			t.Errorf("memory gives %v after Close, want a hit", res.Outcome)
		}
		if _, err := c.Get(t.Context(), cache.Query{Key: "new", Policy: live, Tip: 100}, endless); err == nil {
			t.Error("a flight began after Close")
		}
	})
}
