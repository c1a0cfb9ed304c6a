package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
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

func TestPagesHaveTheSchemeThatATrustedProxyNames(t *testing.T) {
	s := startList(t, listing.Options{NoAuth: true, Policy: cache.Policy{Fresh: time.Hour}}, func(o *proxy.Options) {
		o.Web.PublicURL, o.Web.Limits.TrustedProxies = "", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for range 4 {
		for _, scheme := range []string{"https", "http"} {
			r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+listPath, strings.NewReader(`{}`)))(t)
			r.Host = "h.example"
			r.Header.Set("X-Forwarded-Proto", scheme)
			resp := expect.Value(s.Client().Do(r))(t)
			body := expect.Value(io.ReadAll(resp.Body))(t)
			resp.Body.Close()
			if want := `{"$schema":"` + scheme + "://h.example/"; !strings.HasPrefix(string(body), want) {
				t.Errorf("page = %.60s, want it to begin with %s", body, want)
			}
		}
	}
}
