package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
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

func TestDifferentRequestsAreKeptApart(t *testing.T) {
	s := startList(t, listing.Options{})
	bodies := []string{
		`{}`, `{"orderBy":"assetCount"}`, `{"orderBy":"licensesCount"}`, `{"orderDirection":"asc"}`,
		`{"pagination":{"limit":1}}`, `{"pagination":{"offset":1}}`, `{"pagination":{"limit":1,"offset":1}}`,
		`{"where":{"minAssetCount":1}}`, `{"where":{"maxAssetCount":1}}`, `{"where":{"minAssetCount":0}}`,
		`{"where":{"collectionAddresses":["` + wow + `"]}}`, `{"where":{"collectionAddresses":["` + other + `"]}}`,
		`{"where":{"collectionAddresses":["` + wow + `","` + other + `"]}}`,
	}
	for range 2 {
		for _, body := range bodies {
			s.post(t, body)
		}
	}
	if got := s.store.calls.Load(); got != int64(len(bodies)) {
		t.Errorf("the store was asked %d times for %d pages", got, len(bodies))
	}
}

func TestFailuresAreNotKept(t *testing.T) {
	s := startList(t, listing.Options{})
	s.store.fail(errSilent)
	if res, _ := s.post(t, `{}`); res.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d while the store is gone", res.StatusCode)
	}
	s.store.hold(worldOfWomen())
	if res, _ := s.post(t, `{}`); res.StatusCode != http.StatusOK {
		t.Errorf("status %d when it is back", res.StatusCode)
	}
}

func TestPageOutlivesTheStore(t *testing.T) {
	s := startList(t, listing.Options{Policy: cache.Policy{Fresh: time.Millisecond, Stale: 2 * time.Millisecond, StaleIfError: time.Hour, Keep: time.Hour}})
	_, before := s.post(t, `{}`)
	s.store.fail(errSilent)
	time.Sleep(10 * time.Millisecond)
	res, after := s.post(t, `{}`)
	if res.StatusCode != http.StatusOK || after != before {
		t.Errorf("status %d: %s", res.StatusCode, after)
	}
	if status := res.Header.Get("Cache-Status"); !strings.Contains(status, "stale-if-error") {
		t.Errorf("Cache-Status %q", status)
	}
}

func TestAStalePageIsReadAnewWhileTheStoreIsWell(t *testing.T) {
	s := startList(t, listing.Options{Policy: cache.Policy{Fresh: time.Millisecond, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}})
	s.post(t, `{}`)
	s.store.hold()
	time.Sleep(5 * time.Millisecond)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		res, body := s.post(t, `{}`)
		if len(listed(t, body)) == 0 {
			return
		}
		if status := res.Header.Get("Cache-Status"); !strings.Contains(status, "stale-while-revalidate") { // the machine was slow
			t.Fatalf("the page at hand, not marked as old: %s", status)
		}
	}
	t.Fatal("the page was never read anew")
}

func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	s := startList(t, listing.Options{Policy: cache.Policy{Fresh: time.Millisecond, Stale: time.Millisecond, StaleIfError: time.Hour, Keep: time.Hour}})
	first, _ := s.post(t, `{}`)
	tag := first.Header.Get("Etag")
	for name, tc := range map[string]struct {
		tag    string
		status int
	}{
		"the same validator": {tag, http.StatusNotModified},
		"a weakened one":     {`"x", W/` + tag, http.StatusNotModified},
		"another one":        {`"x"`, http.StatusOK},
	} {
		time.Sleep(3 * time.Millisecond) // read again, and unchanged
		res, body := s.post(t, `{}`, "If-None-Match", tc.tag)
		if res.StatusCode != tc.status || res.Header.Get("Etag") != tag {
			t.Errorf("%s: status %d, Etag %s: %s", name, res.StatusCode, res.Header.Get("Etag"), body)
		}
		wantHeader(t, res, "Cache-Control", "private, no-cache")
	}
	s.store.hold()
	time.Sleep(3 * time.Millisecond)
	if res, _ := s.post(t, `{}`, "If-None-Match", tag); res.StatusCode != http.StatusOK {
		t.Errorf("a changed page: status %d", res.StatusCode)
	}
}

// The same bytes as before are known: nothing of them is parsed or validated.
func TestABodyAskedAgainAllocatesLittle(t *testing.T) {
	p, store := newListProxy(t, listing.Options{Policy: cache.Policy{Fresh: time.Hour}})
	store.hold(worldOfWomen())
	body := strings.NewReader(`{"orderBy":"updatedAt","orderDirection":"desc","where":{"collectionAddresses":["` + wow + `"]}}`)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, body)
	r.Header.Set("X-Api-Key", testKey)
	w, h := &discard{http.Header{}}, p
	n := testing.AllocsPerRun(200, func() {
		_, _ = body.Seek(0, io.SeekStart)
		h.ServeHTTP(w, r)
	})
	if n > 20 {
		t.Errorf("%v allocations, want 20 at most", n)
	}
}

// A long body is read into one piece of memory, twice as large each time, and neither a copy of it nor
// one of the values in it is made to find out what is wrong.
func TestALongBodyIsNotCopied(t *testing.T) {
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

// Bodies that differ in a byte are not mixed up, and what was refused still is.
func TestBodiesThatAreRememberedKeepTheirMeaning(t *testing.T) {
	s := startList(t, listing.Options{})
	for range 3 {
		for _, limit := range []string{"11", "12", "13"} {
			_, text := s.post(t, `{"pagination":{"limit":`+limit+`}}`)
			if got := gjson.Get(text, "pagination.limit").Raw; got != limit {
				t.Errorf("limit %s: %s", limit, text)
			}
		}
		if res, text := s.post(t, `{"pagination":{"limit":1000}}`); res.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("status %d: %s", res.StatusCode, text)
		}
	}
}
