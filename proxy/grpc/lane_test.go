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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// withLane has calls answered in a lane.
func withLane(s *setup) {
	fast := lane.New(lane.Options{Registerer: s.web.Registerer})
	s.web.Lane, s.listener.Lane = fast, fast.ForCalls()
}

// A caller calls a server on one connection, and has its access log.
type caller struct {
	*servers
	conn *google.ClientConn
	log  logtest.Log
}

// both are callers of servers before one node, without and with a lane.
func both(t testing.TB, n *recordedNode, changes ...func(*setup)) (plain, fast *caller) {
	of := func(changes ...func(*setup)) *caller {
		c := &caller{}
		c.servers = open(t, n, true, append(changes, func(s *setup) {
			s.web.AccessLog, s.web.Logger = &c.log, slog.New(slog.NewTextHandler(io.Discard, nil))
		})...)
		c.conn = c.dial(t, google.WithUserAgent("a test"))
		return c
	}
	return of(changes...), of(append(changes, withLane)...)
}

// ask calls once, and waits for the call's line in the log: HTTP/2 ends an answer before that is
// written, and the next call's line might come first.
func (c *caller) ask(t testing.TB, method, message string, pairs ...string) (said string) {
	t.Helper()
	before := c.log.Count("\n")
	said = ask(t.Context(), c.conn, method, unhex(t, message), pairs...).said()
	for end := time.Now().Add(time.Minute); c.log.Count("\n") == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s with %q was not logged", method, pairs)
		}
	}
	return said
}

// said is what a client gets of a reply, but for what passes.
func (r reply) said() string {
	return passing.ReplaceAllString(fmt.Sprintf("%x %v %v %v", r.message, r.header, r.trailer, r.err), "")
}

var (
	passing      = regexp.MustCompile(`ttl=-?\d+|;t=\d+|pushback-ms:\[\d+`)
	passingInLog = regexp.MustCompile(`"time":"[^"]*"|"(duration_ms|age_s)":[0-9.e-]+|"request_id":"[0-9a-f]{32}"`)
)

func (d *servers) purge(t testing.TB) {
	t.Helper()
	if _, err := d.cache.PurgeKeys(t.Context(), state.Select("")); err != nil {
		t.Fatal(err)
	}
}

func (c *caller) inLane(t testing.TB) float64 {
	return expect.Metric(t, c.metrics, "tipcache_proxy_fast_lane_requests_total", "answered")
}

func TestLaneAnswersCallsAsTheHandlerDoes(t *testing.T) {
	t.Parallel()
	address, keys := limits.Rate{Requests: 60, Per: 1000 * time.Hour, Burst: 60}, limits.Rate{Requests: 50, Per: 1000 * time.Hour, Burst: 50}
	for name, change := range map[string]func(*setup){
		"no limits": func(*setup) {},
		"limits": func(s *setup) {
			s.web.Limits.Address, s.blocks.Auth = address, true
			s.web.Keys = []limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("secret")), Rate: keys}}
		},
		"a proxy": func(s *setup) { s.web.Limits.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, fast := both(t, newRecordedNode(t), change)
			balance, ofOne := recordedMessage(t, "grpc_balance")
			unknown, ofNone := recordedMessage(t, "grpc_account_unknown")
			tx, hash := recordedMessage(t, "grpc_gettx")
			for _, pairs := range [][]string{
				nil, {"x-api-key", "secret"}, {"x-api-key", "secret", "x-cosmos-block-height", "14"}, {"x-api-key", "secret", "x-cosmos-block-height", "014"},
				{"x-api-key", "secret", "x-min-block-height", "14"}, {"x-api-key", "secret", "x-cosmos-block-height", "14", "x-cosmos-block-height", "14"}, {"x-api-key", "guess"},
				{"x-api-key", "secret", "x-forwarded-for", "10.0.0.1", "x-request-id", "one"}, {"x-api-key", "secret", "x-cosmos-block-height", "x"}, {"x-api-key", "secret", "x-session", "800"},
			} {
				for range 3 {
					for _, q := range [][2]string{{balance, ofOne}, {params, ""}, {unknown, ofNone}, {tx, hash}} {
						expect.NoDiff(t, fast.ask(t, q[0], q[1], pairs...), plain.ask(t, q[0], q[1], pairs...), "%s with %q with the lane", q[0], pairs)
					}
				}
			}
			if fast.inLane(t) == 0 {
				t.Error("lane served no request")
			}
			if diff := cmp.Diff(passingInLog.ReplaceAllString(plain.log.String(), ""), passingInLog.ReplaceAllString(fast.log.String(), "")); diff != "" {
				t.Errorf("what was logged (-without lane +with lane):\n%s", diff)
			}
			for _, outcome := range []string{"hit", "miss", "refused"} {
				const name = "tipcache_proxy_requests_total"
				if want, got := expect.Metric(t, plain.metrics, name, outcome), expect.Metric(t, fast.metrics, name, outcome); got != want {
					t.Errorf("%v %s are counted, want %v", got, outcome, want)
				}
			}
		})
	}
}

func TestLaneServesEntriesFromMemory(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	_, c := both(t, n)
	at := meaning(params, "", []string{"14"})
	learn := func(x exchange) {
		n.mu.Lock()
		n.byGRPC[at] = x
		n.mu.Unlock()
		c.purge(t)
	}
	for _, message := range []string{"0801", "0802", ""} {
		learn(exchange{Messages: []string{message}, Headers: map[string]string{"x-cosmos-block-height": "14"}, Trailers: map[string]string{"grpc-status": "0"}})
		for range 4 {
			if r := atBlock14(t, c.conn); r.err != nil || hex.EncodeToString(r.message) != message || r.height() != "14" {
				t.Errorf("%x at block %s, %v; want %s", r.message, r.height(), r.err, message)
			}
		}
	}
	expect.Equal(t, c.inLane(t), 2+3+3, "calls answered in the lane")
	learn(exchange{Headers: map[string]string{"x-cosmos-block-height": "14"}, Trailers: map[string]string{"grpc-status": "5", "grpc-message": "gone"}})
	for range 4 {
		if r := atBlock14(t, c.conn); status.Code(r.err) != codes.NotFound || r.height() != "14" {
			t.Errorf("at block %s: %v", r.height(), r.err)
		}
	}
}

// What one interface cannot give of an entry, the other's lane must not count.
func TestValueThatBecomesAnErrorIsCountedOnce(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	var fast *lane.Lane
	d := open(t, n, true, withLane, func(s *setup) { fast = s.web.Lane.(*lane.Lane) })
	server := httptest.NewUnstartedServer(d.rpc.Config.Handler)
	_ = server.Listener.Close()
	server.Listener = expect.Value(listener.Listen(t.Context(), "127.0.0.1:0", listener.Options{Lane: fast.ForRPC(jsonrpc.FindID)}))(t)
	server.Config.ConnContext, server.Config.ConnState = conn.Context, conn.State
	server.Start()
	t.Cleanup(server.Close)
	d.rpc = server
	at := meaning(params, "", []string{"14"})
	n.byRPC[at] = fmt.Sprintf(`{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":%q,"proofOps":null,"height":"14","codespace":""}}`, base64.StdEncoding.EncodeToString([]byte{8, 1}))
	const answered, name = "tipcache_proxy_fast_lane_requests_total", "tipcache_cache_requests_total"
	expect.Eventually(t, "a call is answered in the lane", func() bool {
		d.query(t, params, "")
		return expect.Metric(t, d.metrics, answered, "answered") > 0
	})
	n.mu.Lock()
	n.byGRPC[at] = exchange{Headers: map[string]string{"x-cosmos-block-height": "14"}, Trailers: map[string]string{"grpc-status": "5", "grpc-message": "gone"}}
	n.byRPC[at] = `{"response":{"code":22,"log":"gone: key not found","info":"","index":"0","key":null,"value":null,"proofOps":null,"height":"14","codespace":"sdk"}}`
	n.mu.Unlock()
	d.purge(t)
	atBlock14(t, d.dial(t))
	if got := d.query(t, params, ""); !strings.Contains(got, `"code":22`) {
		t.Fatal(got)
	}
	before := expect.Metric(t, d.metrics, name, "hit")
	if d.query(t, params, ""); expect.Metric(t, d.metrics, name, "hit")-before != 1 {
		t.Errorf("%v hits are counted for one call", expect.Metric(t, d.metrics, name, "hit")-before)
	}
}
