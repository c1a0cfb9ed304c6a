package clients

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

const wrkOutput = `Running 2s test @ http://127.0.0.1:8101/staking/params
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   498.19us  210.33us   6.01ms   93.26%
    Req/Sec   129.91k     5.51k  137.12k    85.00%
  Latency Distribution
     50%  470.00us
     75%  542.00us
     90%  631.00us
     99%    1.21ms
  258497 requests in 2.00s, 230.51MB read
Requests/sec: 129087.22
Transfer/sec:    115.11MB
`

func TestParseWrk(t *testing.T) {
	for name, tt := range map[string]struct {
		text, err string
	}{
		"success":                   {wrkOutput, ""},
		"times followed by a blank": {strings.ReplaceAll(strings.ReplaceAll(wrkOutput, "1.21ms\n", "0.00121s \n"), "470.00us\n", "0.00047s \n"), ""},
		"error statuses":            {wrkOutput + "  Non-2xx or 3xx responses: 12\n", "Non-2xx or 3xx responses: 12"},
		"socket errors":             {wrkOutput + "  Socket errors: connect 0, read 3, write 0, timeout 0\n", "Socket errors: connect 0, read 3, write 0, timeout 0"},
		"other text":                {"unable to connect", "unable to connect"},
		"no responses":              {strings.ReplaceAll(wrkOutput, "258497", "0"), "no figures"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseWrk(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("parseWrk = %v, want %q in the error", err, tt.err)
				}
				return
			}
			want := Loaded{Requests: 258497, PerSecond: 129087.22, P50: 0.47, P99: 1.21}
			if err != nil || got != want {
				t.Fatalf("parseWrk = %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

// Each connection sends one request after another.
func TestHTTP2SendsLoadOverTLS(t *testing.T) {
	if _, err := exec.LookPath("h2load"); err != nil {
		t.Skip("h2load is not installed")
	}
	var connections, requests, others atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.ProtoMajor != 2 || r.TLS == nil {
			others.Add(1)
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	seen := expect.Value(HTTP2(t.Context(), Load{URL: s.URL, Connections: 3, Length: time.Second}))(t)
	if connections.Load() != 3 || others.Load() != 0 || seen.Requests > float64(requests.Load()) || seen.Requests < float64(requests.Load())-3 {
		t.Errorf("connections = %d, requests = %d, without HTTP/2 or TLS = %d, HTTP2 = %+v; want 3 connections, all HTTP/2, and the same requests", connections.Load(), requests.Load(), others.Load(), seen)
	}
}
