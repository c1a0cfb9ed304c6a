package proxy_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A hit in the lane makes no garbage, with its log, its metrics and its limits.
func TestHitInTheLaneAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector has pools forget what they are given")
	}
	suffice := limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}
	tests := []struct {
		name, request string
		limits        limits.Limits
	}{
		{"a body in one piece", getPool, limits.Limits{}},
		{"a body in a coding", "GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "Accept-Encoding: gzip\r\n\r\n", limits.Limits{}},
		{"a body that is not short", "GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "\r\n", limits.Limits{}},
		{"an answer that the client has", "GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "If-None-Match: *\r\n\r\n", limits.Limits{}},
		{"a HEAD", "HEAD /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n", limits.Limits{}},
		{"a request id of an ingress", "GET /staking/pool HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\n\r\n", limits.Limits{}},
		{"a listing", post(`{}`, "X-Api-Key: "+testKey), limits.Limits{}},
		{"a limit of addresses", getPool, limits.Limits{Address: suffice}},
		{"limits of keys and addresses", post(`{}`, "X-Api-Key: "+testKey), limits.Limits{Address: suffice, Key: suffice}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			o := web.Options{
				Lane: lane.New(lane.Options{Registerer: registry}), Limits: tt.limits,
				AccessLog: io.Discard, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			}
			var addr net.Addr
			if strings.HasPrefix(tt.request, "POST ") {
				addr = startListWithout(t, listing.Options{Policy: cache.Policy{Fresh: time.Hour}}, func(all *proxy.Options) {
					o.Keys = all.Web.Keys
					all.Web = o
				}).Listener.Addr()
			} else {
				addr = startChainWithout(t, proxy.Options{Web: o}).Listener.Addr()
			}
			conn := dial(t, addr)
			var answer string
			for tries := 0; hitsOf(t, registry) == 0; tries++ {
				if answer = conn.ask(t, tt.request); tries == 1000 {
					t.Fatal("lane served no request")
				}
			}
			_, body, _ := strings.Cut(answer, "\r\n\r\n")
			request, room := []byte(tt.request), make([]byte, 64<<10)
			const runs = 500
			allocations := 1.0
			for tries := 0; allocations > 0 && tries < 3; tries++ { // what else is in the process may allocate, too
				before := hitsOf(t, registry)
				allocations = testing.AllocsPerRun(runs, func() { exchangeInPlace(t, conn, request, room, len(body)) })
				if hits := hitsOf(t, registry) - before; hits != runs+1 {
					t.Fatalf("%d of %d answers came from the lane", hits, runs+1)
				}
			}
			if allocations > 0 {
				t.Errorf("%v allocations", allocations)
			}
		})
	}
}

// exchangeInPlace asks and reads the answer, without an allocation of its own.
func exchangeInPlace(t *testing.T, conn net.Conn, request, room []byte, body int) {
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	for n, want := 0, -1; n != want; {
		more := expect.Value(conn.Read(room[n:]))(t)
		n += more
		if head := bytes.Index(room[:n], []byte("\r\n\r\n")); head >= 0 {
			want = head + len("\r\n\r\n") + body
		}
	}
}
