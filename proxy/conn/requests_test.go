package conn_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestBodyWithoutMemoryIsRefused(t *testing.T) {
	c, err := cache.New(cache.Options{MemoryBytes: 1 << 20})
	expect.NoError(t, err)
	defer c.Close()
	s := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()}, c)
	if !c.Account().Reserve(account.Unread, 1<<19-128<<10) {
		t.Fatal("Reserve = false, want true")
	}
	held := s.HoldBody(&limits.Client{})
	_, err = held.ReadAll(bytes.NewReader(make([]byte, 128<<10)), 1<<20)
	if f := failure.Of(err); f.Status != http.StatusServiceUnavailable || f.RetryAfter == 0 || f.Public != "too many request bodies are being processed" {
		t.Errorf("failure = %+v, want a 503 with Retry-After", f)
	}
	held.Release()
	if body, err := held.ReadAll(bytes.NewReader(make([]byte, 1000)), 1<<20); err != nil || len(body) != 1000 {
		t.Errorf("small body: %d bytes, error %v; want 1000 bytes", len(body), err)
	}
	held.Release()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader("12345"))) // of unknown length
	if _, err := held.ReadRequest(httptest.NewRecorder(), r, 4); err == nil {
		t.Error("error of a body that is too large = nil, want one")
	}
	held.Release()
	expect.Equal(t, c.Account().Used(), 1<<19-128<<10, "bytes reserved at the end")
}
