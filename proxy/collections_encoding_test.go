package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

// pageAt asks for a page at a host.
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

// newLongList makes a proxy without keys, whose page is worth compressing.
func newLongList(t *testing.T, o listing.Options, change ...func(*proxy.Options)) (http.Handler, *listStore) {
	t.Helper()
	o.NoAuth, o.Policy = true, cache.Policy{Fresh: time.Hour}
	p, store := newListProxy(t, o, change...)
	page := make([]collections.Collection, 20)
	for i := range page {
		page[i] = worldOfWomen()
	}
	store.hold(page...)
	return p, store
}

func TestPagesAreTheSameInEveryCodingAtEveryHost(t *testing.T) {
	h, store := newLongList(t, listing.Options{})
	for range 2 {
		for i := range 4 {
			host := fmt.Sprintf("h%d.example", i)
			_, plain := pageAt(t, h, host, "identity")
			if want := `{"$schema":"http://` + host + `/api/v4/`; !strings.HasPrefix(plain, want) {
				t.Errorf("at %s: %.60s", host, plain)
			}
			for _, accepts := range []string{"gzip", "zstd", "br"} {
				coding, body := pageAt(t, h, host, accepts)
				if coding != accepts || body != plain {
					t.Errorf("at %s in %q, asked for %s: %.60s", host, coding, accepts, body)
				}
			}
		}
	}
	expect.Equal(t, store.calls.Load(), 1, "store requests")
}

func TestPagesOfMoreHostsThanAreRememberedStayPlain(t *testing.T) {
	h, _ := newLongList(t, listing.Options{})
	for i := range 10 {
		pageAt(t, h, fmt.Sprintf("h%d.example", i), "gzip")
	}
	coding, body := pageAt(t, h, "h9.example", "gzip")
	if coding != "" || !strings.HasPrefix(body, `{"$schema":"http://h9.example/`) {
		t.Errorf("in %q: %.60s", coding, body)
	}
	if coding, _ = pageAt(t, h, "h9.example", "identity;q=0, gzip"); coding != "gzip" {
		t.Errorf("in %q for a client that takes nothing else", coding)
	}
	if coding, _ = pageAt(t, h, "h0.example", "gzip"); coding != "gzip" {
		t.Errorf("in %q at a host that is remembered", coding)
	}
}
