package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	listing "github.com/tipcache/tipcache/proxy/collections"
)

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
