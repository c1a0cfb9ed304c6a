package cache_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// The kind of failure must not matter to the first caller of each key after the outage.
func TestFirstCallerAfterOutageGetsNewEntry(t *testing.T) {
	for name, outage := range map[string]func(calls *atomic.Int64) originFunc{
		"refused": func(*atomic.Int64) originFunc { return down },
		"stalled": func(calls *atomic.Int64) originFunc { return slowOrigin(calls, time.Hour, down) },
		"slow":    func(calls *atomic.Int64) originFunc { return slowOrigin(calls, 3*time.Second, down) },
	} {
		for _, patience := range []time.Duration{0, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s, patience %v", name, patience), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, keys := newCache(t, cache.Options{Patience: patience}), []string{"a", "b", "c", "d"}
					q := func(key string, tip int64) cache.Query { return cache.Query{Key: key, Policy: live, Tip: tip} }
					for _, key := range keys {
						mustGet(t, c, q(key, 100), answer(100, page))
					}
					var calls atomic.Int64
					for range 30 {
						for _, key := range keys {
							mustGet(t, c, q(key, 150), outage(&calls))
						}
						time.Sleep(time.Second)
					}
					time.Sleep(20 * time.Second)
					for _, key := range keys {
						if res := mustGet(t, c, q(key, 160), slowOrigin(&calls, 50*time.Millisecond, answer(160, page))); res.Entry.Height != 160 || res.Outcome != cache.Miss {
							t.Errorf("key %s: %v at %d, want miss at 160", key, res.Outcome, res.Entry.Height)
						}
					}
				})
			})
		}
	}
}
