package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
)

func TestEqualRequestsCostOneStoreCall(t *testing.T) {
	spellings := []string{
		`{"where":{"collectionAddresses":["` + wow + `","` + other + `"]}}`,
		`{"where":{"collectionAddresses":["` + other + `","` + strings.ToLower(wow) + `","` + wow + `"]},"orderBy":"updatedAt"}`,
		`{"WHERE":{"collectionaddresses":["` + wow + `","` + other + `","nobody"],"minAssetCount":null},"pagination":{"limit":20,"offset":0},"orderDirection":"desc"}`,
	}
	synctest.Test(t, func(t *testing.T) {
		p, store := newListProxy(t, listing.Options{})
		released := make(chan struct{})
		store.will(func(context.Context, collections.Query) (collections.Page, error) {
			<-released
			return collections.Page{}, nil
		})
		var clients sync.WaitGroup
		for i := range 200 {
			clients.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(spellings[i%len(spellings)]))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Api-Key", testKey)
				w := httptest.NewRecorder()
				if p.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Errorf("status = %d: %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait() // all of them wait for the page
		close(released)
		clients.Wait()
		if got := store.calls.Load(); got != 1 {
			t.Errorf("the store was asked %d times, want 1", got)
		}
	})
}

// A long body is read into one piece of memory, twice as large each time, and neither a copy of it nor
// one of the values in it is made to find out what is wrong.
func TestLongBodyIsNotCopied(t *testing.T) {
	p, _ := newListProxy(t, listing.Options{})
	body := `{"where":{"collectionAddresses":[` + strings.Repeat(`"`+wow+`",`, 20_000) + `""]}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(body))
	r.Header.Set("X-Api-Key", testKey)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	if w.Code != http.StatusUnprocessableEntity {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(3*len(body)) {
		t.Errorf("a body of %d bytes took %d", len(body), took)
	}
}
