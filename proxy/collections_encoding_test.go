package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

// pageAt requests a page from a host and returns it decoded.
func pageAt(t *testing.T, h http.Handler, host, accepts string) (coding, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, listPath, strings.NewReader(`{}`))
	r.Host = host
	r.Header.Set("Accept-Encoding", accepts)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	expect.Equal(t, w.Code, http.StatusOK, "status (%s)", w.Body)
	coding = w.Header().Get("Content-Encoding")
	return coding, decode(t, coding, w.Body.String())
}

func TestPagesAreTheSameInEveryCodingAtEveryHost(t *testing.T) {
	h, store := newListProxy(t, listing.Options{NoAuth: true, Policy: cache.Policy{Fresh: time.Hour}})
	store.setCollections(slices.Repeat([]collections.Collection{worldOfWomen()}, 20)...) // long enough to be compressed
	for range 2 {
		for i := range 4 {
			host := fmt.Sprintf("h%d.example", i)
			_, plain := pageAt(t, h, host, "identity")
			if want := `{"$schema":"http://` + host + `/api/v4/`; !strings.HasPrefix(plain, want) {
				t.Errorf("page at %s = %.60s, want it to begin with %s", host, plain, want)
			}
			for _, accepts := range []string{"gzip", "zstd", "br"} {
				coding, body := pageAt(t, h, host, accepts)
				if coding != accepts || body != plain {
					t.Errorf("page at %s in coding %q = %.60s, want the plain page in %s", host, coding, body, accepts)
				}
			}
		}
	}
	expect.Equal(t, store.calls.Load(), 1, "store requests")
}
