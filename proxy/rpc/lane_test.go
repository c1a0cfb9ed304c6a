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

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func withLane(o *web.Options) { o.Lane = lane.New(lane.Options{Registerer: o.Registerer}) }

// A caller sends bodies to a handler on one connection, and has its access log.
type caller struct {
	net.Conn
	answers *bufio.Reader
	metrics *prometheus.Registry

	mu  sync.Mutex
	log bytes.Buffer
}

func newCaller(t testing.TB, n *recordedNode, changes ...func(*web.Options)) *caller {
	c := &caller{}
	var server *httptest.Server
	server, c.metrics = newHandler(t, n, rpc.Options{}, append(changes, func(o *web.Options) {
		o.AccessLog, o.Logger = c, slog.New(slog.NewTextHandler(io.Discard, nil))
	})...)
	c.dial(t, server)
	return c
}

func (c *caller) dial(t testing.TB, server *httptest.Server) {
	var err error
	if c.Conn, err = net.Dial("tcp", server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.answers = bufio.NewReader(c.Conn)
}

func (c *caller) post(t testing.TB, body string, headers ...string) string {
	t.Helper()
	return c.postTo(t, "/", body, headers...)
}

func (c *caller) postTo(t testing.TB, target, body string, headers ...string) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nContent-Length: %d\r\n", target, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	if _, err := io.WriteString(c.Conn, head+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	var said bytes.Buffer
	fmt.Fprintln(&said, resp.Proto, resp.Status, resp.ContentLength, resp.TransferEncoding)
	_ = resp.Header.Write(&said)
	return passing.ReplaceAllString(said.String(), "") + string(text)
}

var passing = regexp.MustCompile(`(?m)^(Date|Age|Retry-After): .*\r\n|ttl=-?\d+|;r=\d+;t=\d+`)

// Write takes lines of the access log.
func (c *caller) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(line)
}

// logged are the lines of the requests before one more, which is answered without memory.
func (c *caller) logged(t testing.TB) string {
	c.post(t, `{"method":"last"}`)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.log.Reset()
	text, _, _ := strings.Cut(c.log.String(), `"bytes":0`)
	return passingInLog.ReplaceAllString(text, "")
}

var passingInLog = regexp.MustCompile(`"time":"[^"]*"|"(duration_ms|age_s)":[0-9.e-]+`)

func (c *caller) inLane(t testing.TB) float64 {
	return expect.Metric(t, c.metrics, "tipcache_proxy_fast_lane_requests_total", "answered")
}

// both are a handler's callers, without and with a lane.
func both(t testing.TB, changes ...func(*web.Options)) (plain, fast *caller) {
	n := newRecordedNode(t)
	n.learnParams()
	n.calls[`commit{"height":"746"}`] = n.calls["commit"]
	return newCaller(t, n, changes...), newCaller(t, n, append(changes, withLane)...)
}

// calls are bodies whose ids are %s, each of which is answered in the lane from its second id on.
var calls = []string{
	balance[0], balance[1],
	`{"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params"},"id":%s,"jsonrpc":"2.0"}`,
	" {\t\"id\" : %s\r\n,\"method\":\"abci_query\",\"params\":[\"/cosmos.staking.v1beta1.Query/Params\",\"\",\"0\",false]}\n",
	`{"jsonrpc":"2.0","id":%s,"method":"block","params":{"height":"14"}}`,
	`{"jsonrpc":"2.0","id":%s,"method":"status","params":{}}`,
	`{"jsonrpc":"2.0","id":%s,"method":"abci_query","params":{"path":"/cosmos.bank.v1beta1.Query/Balance","data":"0a046e6f706512057374616b65","height":"14"}}`,
}

// oddCalls have something that only the handler is to judge.
var oddCalls = []string{
	`{"id":%s,"id":2,"method":"status"}`, `{"\u0069d":%s,"method":"status"}`, `{"ID":%s,"method":"status"}`, `{"method":"status","params":{"id":%s}}`,
	`{"params":{"id":"x","height":"14"},"id":%s,"method":"block"}`, `{"id":%s,"method":"status"}x`, `{"id":%s,"method":"status"`, `[{"id":%s,"method":"status"}]`,
	`[{"id":%s,"method":"status"},{"id":%[1]s,"method":"health"}]`, `{"id":%s,"method":"st\u0061tus"}`, `{"id":%s,"method":"status","é":1}`, `{"id":%s}`, `{"method":"status"}`,
	`{"id":%s,"method":"no_such","params":{}}`, `{"id":%s,"method":"block","params":{"height":14}}`, `{"id":%s,"method":"commit","params":{"height":"746"}}`,
	`{"id":%s,"method":"block"}`, `{"id":%s,"method":"broadcast_tx_sync","params":{"tx":"AA=="}}`,
}

var ids = []string{
	"0", "1", "123456789012", `"a"`, `""`, `"a b-c_d.e"`, "9007199254740993", "9223372036854775808", // those that the lane gives back
	"-1", "1.5", "1e30", "007", `"<&>"`, `"\u0061"`, `"é"`, `"\n"`, "null", "true", "[1]", `{"id":1}`, "", "x",
}

func TestLaneAnswersCallsAsTheHandlerDoes(t *testing.T) {
	t.Parallel()
	plain, fast := both(t)
	ask := func(body string) {
		expect.NoDiff(t, fast.post(t, body), plain.post(t, body), "%s with the lane", body)
	}
	for _, x := range exchanges(t) {
		if x.Method == http.MethodPost && x.Path == "/" {
			ask(x.Body)
			ask(x.Body)
			ask(x.Body)
		}
	}
	for i, form := range append(calls, oddCalls...) {
		before, odd := fast.inLane(t), i >= len(calls)
		for n := 0; n < 3 || !odd && n < 1000 && fast.inLane(t) == before; n++ { // a request that comes before net/http waits for it is net/http's
			ask(fmt.Sprintf(form, ids[1]))
		}
		before = fast.inLane(t)
		for _, id := range ids {
			ask(fmt.Sprintf(form, id))
		}
		want := 8.0 // the first of the ids
		if odd {
			want = 0
		}
		expect.Equal(t, fast.inLane(t)-before, want, "%s: calls answered in the lane", form)
	}
	expect.NoDiff(t, fast.logged(t), plain.logged(t), "log with the lane")
}

// Of a POST to a URI the body may be a form, in which what looks like an id has a meaning.
func TestLaneIgnoresPostsToURIs(t *testing.T) {
	t.Parallel()
	const params = "/abci_query?path=%22/cosmos.staking.v1beta1.Query/Params%22"
	form := func(id string) string {
		part := func(id, height string) string {
			return "--\"id\":" + id + "\r\nContent-Disposition: form-data; name=\"height\"\r\n\r\n" + height + "\r\n"
		}
		return "{\r\n" + part(id, "14") + part("5", "700") + "--\"id\":5--\r\n"
	}
	plain, fast := both(t)
	for _, tt := range []struct{ target, body, kind string }{
		{"/block?height=14", `{"id":1}`, "application/json"}, {params, `{"id":1}`, "application/json"},
		{"/block", form("5"), `multipart/form-data; boundary="\"id\":5"`}, {"/block", form("6"), `multipart/form-data; boundary="\"id\":5"`},
	} {
		for range 6 {
			if diff := cmp.Diff(plain.postTo(t, tt.target, tt.body, "Content-Type: "+tt.kind), fast.postTo(t, tt.target, tt.body, "Content-Type: "+tt.kind)); diff != "" {
				t.Errorf("%s %q (-without lane +with lane):\n%s", tt.target, tt.body, diff)
			}
		}
	}
	expect.Equal(t, fast.inLane(t), 0, "calls answered in the lane")
}

// Headers that choose between answers, who may ask, and who may read the answers.
func TestLaneOfCallsHonorsHeadersAndLimits(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*web.Options){
		"no limits":           func(*web.Options) {},
		"pages of one origin": func(o *web.Options) { o.CORSOrigins = []string{"https://a.example"} },
		"a limit": func(o *web.Options) {
			o.Limits.Address = limits.Rate{Requests: 30, Per: 1000 * time.Hour, Burst: 30}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, fast := both(t, change)
			for i := range 8 {
				for _, headers := range [][]string{
					nil, {"X-Block-Height: 14"}, {"X-Min-Block-Height: 14"}, {"X-Session: 14"}, {"X-Session: x"}, {"Origin: https://a.example"}, {"Origin: https://b.example"},
					{"Accept-Encoding: gzip", "If-None-Match: *"}, {"X-Block-Height: x"},
				} {
					body := fmt.Sprintf(calls[i%2], fmt.Sprint(i))
					expect.NoDiff(t, fast.post(t, body, headers...), plain.post(t, body, headers...), "%s with %s with the lane", body, headers)
				}
			}
			if fast.inLane(t) == 0 {
				t.Error("lane served no request")
			}
			expect.NoDiff(t, fast.logged(t), plain.logged(t), "log with the lane")
		})
	}
}

// Whatever body comes, and whatever id after it.
func FuzzLaneOfCallsIsTransparent(f *testing.F) {
	for _, form := range append(calls, oddCalls...) {
		f.Add(fmt.Sprintf(form, "7"), `"b"`)
		f.Add(fmt.Sprintf(form, `"<"`), "8")
	}
	plain, fast := both(f)
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
			if diff := cmp.Diff(outcomes.ReplaceAllString(plain.post(t, body), ""), outcomes.ReplaceAllString(fast.post(t, body), "")); diff != "" {
				t.Errorf("%q (-without lane +with lane):\n%s", body, diff)
			}
		}
	})
}

// outcomes are others where an answer that is kept for a moment is asked for at its end.
var outcomes = regexp.MustCompile(`(?m)^Cache-Status: .*\r\n`)
