package clients

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestConnectionIsUsedAgainAndReplaced(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Block-Height", r.Header.Get("X-Block-Height"))
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		_, _ = w.Write(append([]byte(r.Method+" "), body...))
	}))
	defer s.Close()
	c := &Conn{Addr: rig.Host(s.URL)}
	defer c.Close()
	ask := func(request []byte, want string) {
		t.Helper()
		if r, err := c.Do(t.Context(), request); err != nil || string(r.Body) != want || r.Height() != 7 {
			t.Errorf("got %q at %d, %v; want %q", r.Body, r.Height(), err, want)
		}
	}
	const height = "X-Block-Height: 7"
	ask(Request("GET", "/", "", height), "GET ")
	ask(Request("POST", "/", "body", height), "POST body")
	expect.Equal(t, c.Opened, 1, "connections for two requests")
	s.CloseClientConnections()
	ask(Request("GET", "/close", "", height), "GET ")
	ask(Request("GET", "/", "", height), "GET ")
	if c.Opened != 3 {
		t.Errorf("%d connections, want 3: one was closed by each side", c.Opened)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, "/"); !errors.Is(err, context.Canceled) {
		t.Errorf("asked when it was over: %v", err)
	}
}

func TestZipfDrawsByItsLaw(t *testing.T) {
	const n, draws = 1000, 500_000
	seen, norm := make([]float64, n), 0.0
	for range draws {
		seen[Zipf(n)]++
	}
	for k := range n {
		norm += math.Pow(float64(k+1), -0.9)
	}
	for _, k := range []int{0, 1, 2, 10, 50} {
		if want := draws * math.Pow(float64(k+1), -0.9) / norm; math.Abs(seen[k]/want-1) > 0.2 {
			t.Errorf("rank %d: drawn %.0f times, want about %.0f", k, seen[k], want)
		}
	}
}
