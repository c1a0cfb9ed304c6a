package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

// fakeIndexer counts one block in each generation of its store, the first at block 105.
type fakeIndexer struct{ generation atomic.Int64 }

func (x *fakeIndexer) Mark() *collections.Mark {
	generation := x.generation.Load()
	return &collections.Mark{Generation: generation, Total: 1, Cursor: ledger.Cursor{Chain: 1, Block: x.Counted(generation), Time: time.Now()}}
}

func (x *fakeIndexer) Counted(generation int64) int64 { return 104 + generation }

func (x *fakeIndexer) Since(block int64) (int64, time.Time) { return max(1, block-104), time.Now() }

func (x *fakeIndexer) Await(ctx context.Context, block int64) error {
	if x.Mark().Cursor.Block >= block {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestPageBelowRequestedBlockIsNeverServed(t *testing.T) {
	type list = func(context.Context, collections.Query) (collections.Page, error)
	hangs := func(ctx context.Context, _ collections.Query) (collections.Page, error) {
		<-ctx.Done()
		return collections.Page{}, context.Cause(ctx)
	}
	failsWith := func(err error) list {
		return func(context.Context, collections.Query) (collections.Page, error) { return collections.Page{}, err }
	}
	firstGeneration := func(context.Context, collections.Query) (collections.Page, error) {
		return collections.Page{Items: []collections.Collection{worldOfWomen()}, Total: 1, Generation: 1}, nil
	}
	for name, tt := range map[string]struct {
		list list
		want int
	}{
		"the store fails":         {failsWith(errUnreachable), http.StatusBadGateway},
		"the store is overloaded": {failsWith(collections.Busy(errUnreachable)), http.StatusServiceUnavailable},
		"the store is slow":       {hangs, http.StatusGatewayTimeout},
		"a standby database lags": {firstGeneration, http.StatusServiceUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			indexer := &fakeIndexer{}
			indexer.generation.Store(1)
			policy := cache.Policy{Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}
			p, store := newListProxy(t, listing.Options{NoAuth: true, Policy: policy, Watch: indexer, Filled: true})
			expectPage := func(minBlock string, status int, block string) {
				t.Helper()
				r, w := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(`{}`)), httptest.NewRecorder()
				r.Header.Set("X-Min-Evm-Block", minBlock)
				p.ServeHTTP(w, r)
				expect.Response(t, "a page of block "+minBlock, w.Code, w.Body.String(), status)
				expect.Equal(t, w.Header().Get("X-Evm-Block"), block, "%s: block of the response", name)
			}
			store.answerWith(firstGeneration)
			expectPage("", http.StatusOK, "105")
			indexer.generation.Store(2)
			store.answerWith(tt.list)
			for range 3 {
				expectPage("106", tt.want, "")
			}
			expectPage("", http.StatusOK, "105")
			expectPage("105", http.StatusOK, "105") // the page has counted it
		})
	}
}
