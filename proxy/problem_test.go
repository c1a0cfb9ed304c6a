package proxy_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
)

func wantHeader(t *testing.T, res *http.Response, name, want string) {
	t.Helper()
	if got := res.Header.Get(name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestSlowBodyTimesOut(t *testing.T) {
	t.Parallel()
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.RequestTimeout = 200 * time.Millisecond })
	slow, end := io.Pipe()
	defer end.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+listPath, slow)
	must(t, err)
	r.Header.Set("X-Api-Key", testKey)
	res, err := s.Client().Do(r)
	must(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", res.StatusCode)
	}
	wantHeader(t, res, "Content-Type", "application/problem+json")
}
