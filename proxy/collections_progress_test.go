package proxy_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A watched store has come to the block of 3.5 s ago.
type watched struct {
	mark  atomic.Pointer[collections.Mark]
	moved atomic.Pointer[chan struct{}] // closed, and replaced, at each other mark
}

func watchedAt(m collections.Mark) *watched {
	w, moved := &watched{}, make(chan struct{})
	w.moved.Store(&moved)
	w.to(m)
	return w
}

func (w *watched) to(m collections.Mark) {
	w.mark.Store(&m)
	moved := make(chan struct{})
	close(*w.moved.Swap(&moved))
}

func (w *watched) Mark() *collections.Mark {
	m := *w.mark.Load()
	m.Cursor.Time = time.Now().Add(-3500 * time.Millisecond)
	return &m
}

func (w *watched) Counted(generation int64) int64 {
	return map[int64]int64{1: 105, 2: 106, 3: 107}[generation]
}

func (w *watched) Since(block int64) (int64, time.Time) {
	for generation := int64(1); generation <= 3; generation++ {
		if w.Counted(generation) >= block {
			return generation, time.Now()
		}
	}
	return 0, time.Time{}
}

func (w *watched) Await(ctx context.Context, block int64) error {
	for {
		moved := *w.moved.Load()
		if w.mark.Load().Cursor.Block >= block {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// countedTo is the mark of a store that follows a chain.
func countedTo(generation, block int64) collections.Mark {
	return collections.Mark{Generation: generation, Total: 1, Cursor: ledger.Cursor{Chain: 1, Block: block}}
}

// aDay is a policy by which seconds make nothing old, so that it is no matter
// when a test runs.
var aDay = cache.Policy{Fresh: time.Hour, Stale: 1e6 * time.Hour, StaleIfError: 1e6 * time.Hour, Keep: 1e6 * time.Hour}

func TestPageBelowRequestedBlockIsNeverServed(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ collections.Query) (collections.Page, error) {
		<-ctx.Done()
		return collections.Page{}, context.Cause(ctx)
	}
	failsWith := func(err error) func(context.Context, collections.Query) (collections.Page, error) {
		return func(context.Context, collections.Query) (collections.Page, error) { return collections.Page{}, err }
	}
	for name, tt := range map[string]struct {
		store func(context.Context, collections.Query) (collections.Page, error)
		want  int
	}{
		"the store fails":         {failsWith(errSilent), http.StatusBadGateway},
		"the store is overloaded": {failsWith(collections.Busy(errSilent)), http.StatusServiceUnavailable},
		"the store is slow":       {hangs, http.StatusGatewayTimeout},
		"a standby database lags": {func(context.Context, collections.Query) (collections.Page, error) {
			return collections.Page{Items: []collections.Collection{worldOfWomen()}, Total: 1, Generation: 1}, nil
		}, http.StatusServiceUnavailable},
	} {
		known := watchedAt(collections.Mark{})
		s := startList(t, listing.Options{Policy: aDay, Watch: known, Filled: true}, func(o *proxy.Options) { o.Web.RequestTimeout = 200 * time.Millisecond })
		s.store.will(func(context.Context, collections.Query) (collections.Page, error) {
			return collections.Page{Items: []collections.Collection{worldOfWomen()}, Total: 1, Generation: 1}, nil
		})
		known.to(countedTo(1, 105))
		s.post(t, `{}`)
		known.to(countedTo(2, 106))
		s.store.will(tt.store)
		for range 3 {
			if res, body := s.post(t, `{}`, "X-Min-Evm-Block", "106"); res.StatusCode != tt.want {
				t.Errorf("%s: status = %d with block %q, want %d: %s", name, res.StatusCode, res.Header.Get("X-Evm-Block"), tt.want, body)
			}
		}
		for _, block := range []string{"", "105"} { // the page has counted it
			if res, body := s.post(t, `{}`, "X-Min-Evm-Block", block); res.StatusCode != http.StatusOK || res.Header.Get("X-Evm-Block") != "105" {
				t.Errorf("%s, asked for %q: status = %d with block %q, want 200 with 105: %s", name, block, res.StatusCode, res.Header.Get("X-Evm-Block"), body)
			}
		}
	}
}
