package collections

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

// indexed is a store that has counted block 700, a minute ago.
type indexed struct{ watch }

func (indexed) Mark() *store.Mark {
	return &store.Mark{Generation: 5, Cursor: ledger.Cursor{Chain: 1, Block: 700, Time: time.Now().Add(-time.Minute)}}
}

func (indexed) List(context.Context, store.Query) (store.Page, error) {
	return store.Page{Items: []store.Collection{}, Generation: 5}, nil
}

func TestPageSaysHowFarItsStoreIsAndIsPrivate(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	h := New(Options{Store: indexed{}, Watch: indexed{}, NoAuth: true}, web.New(web.Options{}, c), c)
	for range 2 { // a miss and a hit
		w := httptest.NewRecorder()
		g, _ := gin.CreateTestContext(w)
		g.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader("{}"))
		g.Request.Header.Set("Content-Type", respond.JSON)
		for _, route := range h.Routes() {
			if route.Pattern == Path {
				expect.NoError(t, route.Serve(g, &record.Record{Start: time.Now()}))
			}
		}
		head := w.Header()
		expect.Equal(t, head.Get("Cache-Control"), "private, no-cache", "Cache-Control")
		expect.Contains(t, head.Get("Cache-Status"), "behind=1m", "Cache-Status")
		expect.Equal(t, head.Get("X-Evm-Block"), "700", "X-Evm-Block")
	}
}
