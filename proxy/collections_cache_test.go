package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	listing "github.com/tipcache/tipcache/proxy/collections"
)

// A long body is read into one buffer that doubles when it is full. Validation copies neither the body nor its values.
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
		t.Fatalf("status = %d %s, want 422", w.Code, w.Body)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(3*len(body)) {
		t.Errorf("a body of %d bytes allocated %d, want at most three times its size", len(body), took)
	}
}
