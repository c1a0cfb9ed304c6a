package grpc_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"testing"
	"time"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// withLane gives the servers a lane.
func withLane(s *setup) {
	fast := lane.New(lane.Options{Registerer: s.web.Registerer})
	s.web.Lane, s.listener.Lane = fast, fast.ForCalls()
}

// A caller is a client with one connection to a server, and the server's access log.
type caller struct {
	*servers
	conn *google.ClientConn
	log  logtest.Log
}

// newCallers returns callers of two servers of one node, without and with a lane.
func newCallers(t testing.TB, n *recordedNode, changes ...func(*setup)) (plain, fast *caller) {
	newCaller := func(changes ...func(*setup)) *caller {
		c := &caller{}
		c.servers = open(t, n, true, append(changes, func(s *setup) {
			s.web.Record.AccessLog, s.web.Logger = &c.log, slog.New(slog.NewTextHandler(io.Discard, nil))
		})...)
		c.conn = c.dial(t, google.WithUserAgent("a test"))
		return c
	}
	return newCaller(changes...), newCaller(append(changes, withLane)...)
}

// invoke calls a method, waits for the call's line in the log, and describes the reply without its volatile parts. The
// client has a reply before the line is written, and the line of the next call could come first.
func (c *caller) invoke(t testing.TB, method, message string, pairs ...string) string {
	t.Helper()
	before := c.log.Count("\n")
	r := invoke(t.Context(), c.conn, method, message, pairs...)
	expect.EventuallyAtLeast(t, fmt.Sprintf("%s with %q is logged", method, pairs), func() int { return c.log.Count("\n") }, before+1)
	return volatile.ReplaceAllString(fmt.Sprintf("%x %v %v %v", r.message, r.header, r.trailer, r.err), "")
}

var (
	volatile      = regexp.MustCompile(`ttl=-?\d+|;t=\d+|pushback-ms:\[\d+`)
	volatileInLog = regexp.MustCompile(`"time":"[^"]*"|"(duration_ms|age_s)":[0-9.e-]+|"request_id":"[0-9a-f]{32}"`)
)

func (d *servers) purge(t testing.TB) {
	t.Helper()
	expect.Value(d.cache.PurgeKeys(t.Context(), state.Select("")))(t)
}

// laneHits returns the number of calls that the lane has answered.
func (c *caller) laneHits(t testing.TB) float64 {
	return expect.Metric(t, c.metrics, "tipcache_proxy_fast_lane_requests_total", "answered")
}

func TestLaneAnswersCallsAsTheHandlerDoes(t *testing.T) {
	t.Parallel()
	address, keys := limits.Rate{Requests: 60, Per: 1000 * time.Hour, Burst: 60}, limits.Rate{Requests: 50, Per: 1000 * time.Hour, Burst: 50}
	for name, change := range map[string]func(*setup){
		"without limits": func(*setup) {},
		"with limits": func(s *setup) {
			s.web.Limits.Address, s.blocks.Auth = address, true
			s.web.Keys = []limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("secret")), Rate: keys}}
		},
		"behind a proxy": func(s *setup) { s.web.Limits.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, fast := newCallers(t, newRecordedNode(t), change)
			queries := [][2]string{{params, ""}}
			for _, name := range []string{"grpc_balance", "grpc_account_unknown", "grpc_gettx"} {
				path, message := recordedMessage(t, name)
				queries = append(queries, [2]string{path, message})
			}
			for _, pairs := range [][]string{
				nil, {"x-api-key", "secret"}, {"x-api-key", "secret", "x-cosmos-block-height", "14"}, {"x-api-key", "secret", "x-cosmos-block-height", "014"},
				{"x-api-key", "secret", "x-min-block-height", "14"}, {"x-api-key", "secret", "x-cosmos-block-height", "14", "x-cosmos-block-height", "14"}, {"x-api-key", "guess"},
				{"x-api-key", "secret", "x-forwarded-for", "10.0.0.1", "x-request-id", "one"}, {"x-api-key", "secret", "x-cosmos-block-height", "x"}, {"x-api-key", "secret", "x-session", "800"},
			} {
				for range 3 {
					for _, q := range queries {
						expect.NoDiff(t, fast.invoke(t, q[0], q[1], pairs...), plain.invoke(t, q[0], q[1], pairs...), "reply to %s with %q with the lane", q[0], pairs)
					}
				}
			}
			if fast.laneHits(t) == 0 {
				t.Error("calls answered in the lane = 0, want some")
			}
			expect.NoDiff(t, volatileInLog.ReplaceAllString(fast.log.String(), ""), volatileInLog.ReplaceAllString(plain.log.String(), ""), "log with the lane")
			for _, outcome := range []string{"hit", "miss", "refused"} {
				const name = "tipcache_proxy_requests_total"
				expect.Equal(t, expect.Metric(t, fast.metrics, name, outcome), expect.Metric(t, plain.metrics, name, outcome), "counted requests with outcome %s", outcome)
			}
		})
	}
}

func TestLaneServesEntriesFromMemory(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	_, c := newCallers(t, n)
	respond := func(x exchange) {
		n.change(func() { n.byGRPC[callKey(params, "", "14")] = x })
		c.purge(t)
	}
	for _, message := range []string{"0801", "0802", ""} {
		respond(exchange{Messages: []string{message}, Headers: map[string]string{"x-cosmos-block-height": "14"}, Trailers: map[string]string{"grpc-status": "0"}})
		for range 4 {
			if r := invokeAt14(t, c.conn); r.err != nil || hex.EncodeToString(r.message) != message || r.height() != "14" {
				t.Errorf("reply = %x at block %s, error %v; want %q at block 14", r.message, r.height(), r.err, message)
			}
		}
	}
	expect.Equal(t, c.laneHits(t), 2+3+3, "calls answered in the lane")
	respond(exchange{Headers: map[string]string{"x-cosmos-block-height": "14"}, Trailers: map[string]string{"grpc-status": "5", "grpc-message": "gone"}})
	for range 4 {
		if r := invokeAt14(t, c.conn); status.Code(r.err) != codes.NotFound || r.height() != "14" {
			t.Errorf("reply at block %s = %v, want NotFound at block 14", r.height(), r.err)
		}
	}
}

// The gRPC handler caches an error that the RPC cannot use, so the RPC's lane must not count a hit for it.
func TestValueThatBecomesAnErrorIsCountedOnce(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	var fast *lane.Lane
	d := open(t, n, true, withLane, func(s *setup) { fast = s.web.Lane.(*lane.Lane) })
	server := httptest.NewUnstartedServer(d.rpc.Config.Handler)
	_ = server.Listener.Close()
	server.Listener = expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", conn.Options{Lane: fast.ForRPC(jsonrpc.FindID)}))(t)
	server.Config.ConnContext, server.Config.ConnState = conn.Context, conn.State
	server.Start()
	t.Cleanup(server.Close)
	d.rpc = server
	at := callKey(params, "", "14")
	n.byRPC[at] = fmt.Sprintf(`{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":%q,"proofOps":null,"height":"14","codespace":""}}`, base64.StdEncoding.EncodeToString([]byte{8, 1}))
	expect.Eventually(t, "a call is answered in the lane", func() bool {
		d.query(t, params, "")
		return expect.Metric(t, d.metrics, "tipcache_proxy_fast_lane_requests_total", "answered") > 0
	})
	n.change(func() {
		n.byGRPC[at] = exchange{Headers: map[string]string{"x-cosmos-block-height": "14"}, Trailers: map[string]string{"grpc-status": "5", "grpc-message": "gone"}}
		n.byRPC[at] = `{"response":{"code":22,"log":"gone: key not found","info":"","index":"0","key":null,"value":null,"proofOps":null,"height":"14","codespace":"sdk"}}`
	})
	d.purge(t)
	invokeAt14(t, d.dial(t))
	expect.Contains(t, d.query(t, params, ""), `"code":22`, "response by RPC")
	hits := func() float64 { return expect.Metric(t, d.metrics, "tipcache_cache_requests_total", "hit") }
	before := hits()
	d.query(t, params, "")
	expect.Equal(t, hits()-before, 1, "hits counted for one call")
}
