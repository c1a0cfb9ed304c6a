package clients

import (
	"context"
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
	do := func(request []byte, want string) {
		t.Helper()
		if r, err := c.Do(t.Context(), request); err != nil || string(r.Body) != want || r.Height() != 7 {
			t.Errorf("Do = %q at %d, %v; want %q at 7", r.Body, r.Height(), err, want)
		}
	}
	const height = "X-Block-Height: 7"
	do(Request("GET", "/", "", height), "GET ")
	do(Request("POST", "/", "body", height), "POST body")
	expect.Equal(t, c.Opened, 1, "connections for two requests")
	s.CloseClientConnections()
	do(Request("GET", "/close", "", height), "GET ")
	do(Request("GET", "/", "", height), "GET ")
	expect.Equal(t, c.Opened, 3, "connections after each side has closed one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Get(ctx, "/")
	expect.ErrorIs(t, err, context.Canceled, "Get with a canceled context")
}

func TestZipfFollowsItsDistribution(t *testing.T) {
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
			t.Errorf("draws of rank %d = %.0f, want about %.0f", k, seen[k], want)
		}
	}
}
