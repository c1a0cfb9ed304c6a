package proxy_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSlowBodyTimesOut(t *testing.T) {
	t.Parallel()
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.RequestTimeout = 200 * time.Millisecond })
	slow, end := io.Pipe()
	defer end.Close()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+listPath, slow))(t)
	r.Header.Set("X-Api-Key", testKey)
	res := expect.Value(s.Client().Do(r))(t)
	defer res.Body.Close()
	expect.Equal(t, res.StatusCode, http.StatusRequestTimeout, "status")
	expect.Equal(t, res.Header.Get("Content-Type"), "application/problem+json", "Content-Type")
}
