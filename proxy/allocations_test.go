package proxy_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// discardWriter is a ResponseWriter that does not allocate.
type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (d *discardWriter) WriteHeader(int)             {}

func TestHitAllocatesLittle(t *testing.T) {
	tests := []struct {
		name    string
		origins []string
		headers []string
	}{
		{"a plain body", nil, nil},
		{"gzip", nil, []string{"Accept-Encoding", "gzip, deflate"}},
		{"the codings of browsers", nil, []string{"Accept-Encoding", "gzip, deflate, br, zstd", "Origin", "https://app.example"}},
		{"a listed origin", []string{"https://app.example"}, []string{"Accept-Encoding", "zstd", "Origin", "https://app.example"}},
		{"a response without a body", nil, []string{"Accept-Encoding", "br", "If-None-Match", "*"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newChainProxy(t, proxy.Options{Web: web.Options{Settings: web.Settings{CORSOrigins: tt.origins}}})
			r := httptest.NewRequest(http.MethodGet, "/staking/validators", nil)
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Set(tt.headers[i], tt.headers[i+1])
			}
			w := &discardWriter{http.Header{}}
			if n := testing.AllocsPerRun(500, func() { h.ServeHTTP(w, r) }); n > 10 { // 8, and refills of pools
				t.Errorf("allocations of a hit = %v, want at most 10", n)
			}
		})
	}
}

// The log, metrics and limits of a request served by the lane do not allocate either.
func TestHitInTheLaneAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("pools drop items under the race detector")
	}
	plenty := limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}
	tests := []struct {
		name, request string
		limits        limits.Limits
	}{
		{"a short body", getPool, limits.Limits{}},
		{"a compressed body", "GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "Accept-Encoding: gzip\r\n\r\n", limits.Limits{}},
		{"a long body", "GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "\r\n", limits.Limits{}},
		{"a response without a body", "GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "If-None-Match: *\r\n\r\n", limits.Limits{}},
		{"a HEAD", "HEAD /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n", limits.Limits{}},
		{"a request id", "GET /staking/pool HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\n\r\n", limits.Limits{}},
		{"a listing", post(`{}`, "X-Api-Key: "+testKey), limits.Limits{}},
		{"a limit of addresses", getPool, limits.Limits{Address: plenty}},
		{"limits of keys and addresses", post(`{}`, "X-Api-Key: "+testKey), limits.Limits{Address: plenty, Key: plenty}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			o := web.Options{
				Record: record.Options{AccessLog: io.Discard},
				Lane:   lane.New(lane.Options{Registerer: registry}), Limits: tt.limits,
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			}
			var addr net.Addr
			if strings.HasPrefix(tt.request, "POST ") {
				addr = serveList(t, listing.Options{Policy: cache.Policy{Fresh: time.Hour}}, func(all *proxy.Options) {
					o.Keys = all.Web.Keys
					all.Web = o
				}).Listener.Addr()
			} else {
				addr = serveChain(t, proxy.Options{Web: o}).Listener.Addr()
			}
			conn := dial(t, addr)
			_, body, _ := strings.Cut(warmLane(t, registry, conn, tt.request), "\r\n\r\n")
			request, buffer := []byte(tt.request), make([]byte, 64<<10)
			const runs = 500
			allocations := 1.0
			for tries := 0; allocations > 0 && tries < 3; tries++ { // other goroutines may allocate, too
				before := laneHits(t, registry)
				allocations = testing.AllocsPerRun(runs, func() { roundTripWithoutAllocation(t, conn, request, buffer, len(body)) })
				expect.Equal(t, laneHits(t, registry)-before, runs+1, "requests served by the lane")
			}
			expect.Equal(t, allocations, 0, "allocations of a request")
		})
	}
}

// roundTripWithoutAllocation sends a request and reads the response with a body of the given length into buffer.
func roundTripWithoutAllocation(t *testing.T, conn net.Conn, request, buffer []byte, body int) {
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	for n, want := 0, -1; n != want; {
		more, err := conn.Read(buffer[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += more
		if head := bytes.Index(buffer[:n], []byte("\r\n\r\n")); head >= 0 {
			want = head + len("\r\n\r\n") + body
		}
	}
}
