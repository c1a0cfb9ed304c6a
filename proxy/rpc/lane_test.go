package rpc_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func withLane(o *web.Options) { o.Lane = lane.New(lane.Options{Registerer: o.Registerer}) }

// A caller sends requests to a handler on one connection, and collects the access log.
type caller struct {
	net.Conn
	responses *bufio.Reader
	metrics   *prometheus.Registry

	mu  sync.Mutex
	log bytes.Buffer
}

func newCaller(t testing.TB, n *recordedNode, changes ...func(*web.Options)) *caller {
	t.Helper()
	c := &caller{}
	var server *httptest.Server
	server, c.metrics = newHandler(t, n, rpc.Options{}, append(changes, func(o *web.Options) {
		o.Record.AccessLog, o.Logger = c, slog.New(slog.NewTextHandler(io.Discard, nil))
	})...)
	c.Conn = expect.Value(net.Dial("tcp", server.Listener.Addr().String()))(t)
	t.Cleanup(func() { _ = c.Close() })
	c.responses = bufio.NewReader(c.Conn)
	return c
}

func (c *caller) post(t testing.TB, body string, headers ...string) string {
	t.Helper()
	return c.postTo(t, "/", body, headers...)
}

// postTo posts a body and returns the response as text, without the parts that differ between equal requests.
func (c *caller) postTo(t testing.TB, target, body string, headers ...string) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nContent-Length: %d\r\n", target, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	expect.Value(io.WriteString(c.Conn, head+"\r\n"+body))(t)
	resp := expect.Value(http.ReadResponse(c.responses, nil))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	var received bytes.Buffer
	fmt.Fprintln(&received, resp.Proto, resp.Status, resp.ContentLength, resp.TransferEncoding)
	_ = resp.Header.Write(&received)
	return changingHeaders.ReplaceAllString(received.String(), "") + string(text)
}

// changingHeaders matches the parts of a response that differ between equal requests.
var changingHeaders = regexp.MustCompile(`(?m)^(Date|Age|Retry-After): .*\r\n|ttl=-?\d+|;r=\d+;t=\d+`)

// Write appends a line to the access log.
func (c *caller) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(line)
}

// takeLog returns and clears the log of the requests so far. The line of one more request, which has no body, shows that
// all of them are written.
func (c *caller) takeLog(t testing.TB) string {
	c.post(t, `{"method":"last"}`)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.log.Reset()
	text, _, _ := strings.Cut(c.log.String(), `"bytes":0`)
	return changingFields.ReplaceAllString(text, "")
}

var changingFields = regexp.MustCompile(`"time":"[^"]*"|"(duration_ms|age_s)":[0-9.e-]+`)

// countInLane returns the number of requests that the lane has answered.
func (c *caller) countInLane(t testing.TB) float64 {
	return expect.Metric(t, c.metrics, "tipcache_proxy_fast_lane_requests_total", "answered")
}

// newCallers returns callers of two handlers for one node, without and with a lane.
func newCallers(t testing.TB, changes ...func(*web.Options)) (plain, fast *caller) {
	n := newRecordedNode(t)
	n.recordParams()
	n.calls[`commit{"height":"746"}`] = n.calls["commit"]
	return newCaller(t, n, changes...), newCaller(t, n, append(changes, withLane)...)
}

// calls are bodies with the id %s. The lane answers each of them after the handler has answered it once.
var calls = []string{
	paramsCalls[0], paramsCalls[1],
	`{"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params"},"id":%s,"jsonrpc":"2.0"}`,
	" {\t\"id\" : %s\r\n,\"method\":\"abci_query\",\"params\":[\"/cosmos.staking.v1beta1.Query/Params\",\"\",\"0\",false]}\n",
	`{"jsonrpc":"2.0","id":%s,"method":"block","params":{"height":"14"}}`,
	`{"jsonrpc":"2.0","id":%s,"method":"status","params":{}}`,
	`{"jsonrpc":"2.0","id":%s,"method":"abci_query","params":{"path":"/cosmos.bank.v1beta1.Query/Balance","data":"0a046e6f706512057374616b65","height":"14"}}`,
}

// oddCalls are bodies that only the handler may answer.
var oddCalls = []string{
	`{"id":%s,"id":2,"method":"status"}`, `{"\u0069d":%s,"method":"status"}`, `{"ID":%s,"method":"status"}`, `{"method":"status","params":{"id":%s}}`,
	`{"params":{"id":"x","height":"14"},"id":%s,"method":"block"}`, `{"id":%s,"method":"status"}x`, `{"id":%s,"method":"status"`, `[{"id":%s,"method":"status"}]`,
	`[{"id":%s,"method":"status"},{"id":%[1]s,"method":"health"}]`, `{"id":%s,"method":"st\u0061tus"}`, `{"id":%s,"method":"status","é":1}`, `{"id":%s}`, `{"method":"status"}`,
	`{"id":%s,"method":"no_such","params":{}}`, `{"id":%s,"method":"block","params":{"height":14}}`, `{"id":%s,"method":"commit","params":{"height":"746"}}`,
	`{"id":%s,"method":"block"}`, `{"id":%s,"method":"broadcast_tx_sync","params":{"tx":"AA=="}}`,
}

var ids = []string{
	"0", "1", "123456789012", `"a"`, `""`, `"a b-c_d.e"`, "9007199254740993", "9223372036854775808", // the lane returns these unchanged
	"-1", "1.5", "1e30", "007", `"<&>"`, `"\u0061"`, `"é"`, `"\n"`, "null", "true", "[1]", `{"id":1}`, "", "x",
}

func TestLaneAnswersCallsLikeHandler(t *testing.T) {
	t.Parallel()
	plain, fast := newCallers(t)
	compare := func(body string) {
		t.Helper()
		expect.NoDiff(t, fast.post(t, body), plain.post(t, body), "%s with the lane", body)
	}
	for _, x := range exchanges(t) {
		if x.Method == http.MethodPost && x.Path == "/" {
			for range 3 {
				compare(x.Body)
			}
		}
	}
	for i, form := range append(calls, oddCalls...) {
		before, odd := fast.countInLane(t), i >= len(calls)
		for n := 0; n < 3 || !odd && n < 1000 && fast.countInLane(t) == before; n++ { // net/http keeps a request that arrives before it waits for the next one
			compare(fmt.Sprintf(form, ids[1]))
		}
		before = fast.countInLane(t)
		for _, id := range ids {
			compare(fmt.Sprintf(form, id))
		}
		want := 8.0 // the first ids
		if odd {
			want = 0
		}
		expect.Equal(t, fast.countInLane(t)-before, want, "%s: calls answered in the lane", form)
	}
	expect.NoDiff(t, fast.takeLog(t), plain.takeLog(t), "log with the lane")
}

// The body of a POST to a URI may be a form, in which a text like an id may be a parameter.
func TestLaneIgnoresPostsToURIs(t *testing.T) {
	t.Parallel()
	const params = "/abci_query?path=%22/cosmos.staking.v1beta1.Query/Params%22"
	form := func(id string) string {
		part := func(id, height string) string {
			return "--\"id\":" + id + "\r\nContent-Disposition: form-data; name=\"height\"\r\n\r\n" + height + "\r\n"
		}
		return "{\r\n" + part(id, "14") + part("5", "700") + "--\"id\":5--\r\n"
	}
	plain, fast := newCallers(t)
	for _, tt := range []struct{ target, body, kind string }{
		{"/block?height=14", `{"id":1}`, "application/json"}, {params, `{"id":1}`, "application/json"},
		{"/block", form("5"), `multipart/form-data; boundary="\"id\":5"`}, {"/block", form("6"), `multipart/form-data; boundary="\"id\":5"`},
	} {
		for range 6 {
			kind := "Content-Type: " + tt.kind
			expect.NoDiff(t, fast.postTo(t, tt.target, tt.body, kind), plain.postTo(t, tt.target, tt.body, kind), "%s %q with the lane", tt.target, tt.body)
		}
	}
	expect.Equal(t, fast.countInLane(t), 0, "calls answered in the lane")
}

// Headers select the block and the encoding, and limits and origins decide who gets an answer.
func TestLaneHonorsHeadersAndLimits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*web.Options){
		"no limits":       func(*web.Options) {},
		"one CORS origin": func(o *web.Options) { o.CORSOrigins = []string{"https://a.example"} },
		"a limit": func(o *web.Options) {
			o.Limits.Address = limits.Rate{Requests: 30, Per: 1000 * time.Hour, Burst: 30}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, fast := newCallers(t, change)
			for i := range 8 {
				for _, headers := range [][]string{
					nil, {"X-Block-Height: 14"}, {"X-Min-Block-Height: 14"}, {"X-Session: 14"}, {"X-Session: x"}, {"Origin: https://a.example"}, {"Origin: https://b.example"},
					{"Accept-Encoding: gzip", "If-None-Match: *"}, {"X-Block-Height: x"},
				} {
					body := fmt.Sprintf(calls[i%2], fmt.Sprint(i))
					expect.NoDiff(t, fast.post(t, body, headers...), plain.post(t, body, headers...), "%s with %s with the lane", body, headers)
				}
			}
			if fast.countInLane(t) == 0 {
				t.Error("requests answered in the lane = 0, want some")
			}
			expect.NoDiff(t, fast.takeLog(t), plain.takeLog(t), "log with the lane")
		})
	}
}

// Any body is repeated, and then sent with any other id.
func FuzzLaneOfCallsIsTransparent(f *testing.F) {
	for _, form := range append(calls, oddCalls...) {
		f.Add(fmt.Sprintf(form, "7"), `"b"`)
		f.Add(fmt.Sprintf(form, `"<"`), "8")
	}
	plain, fast := newCallers(f)
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, body, id string) {
		mu.Lock()
		defer mu.Unlock()
		bodies := []string{body, body, body}
		if from, to, ok := jsonrpc.FindID(body); ok {
			bodies = append(bodies, body[:from]+id+body[to:])
		}
		for _, body := range bodies {
			if len(body) == 0 || len(body) > 16<<10 || strings.Contains(body, "broadcast") {
				continue
			}
			expect.NoDiff(t, cacheStatus.ReplaceAllString(fast.post(t, body), ""), cacheStatus.ReplaceAllString(plain.post(t, body), ""), "%q with the lane", body)
		}
	})
}

// cacheStatus matches the header that differs if a short-lived entry expires between the two requests.
var cacheStatus = regexp.MustCompile(`(?m)^Cache-Status: .*\r\n`)
