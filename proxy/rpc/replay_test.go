package rpc_test

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// An exchange is a request and the response of a real node, wasmd v0.61.14, at block 746.
type exchange struct {
	Name, Method, Path, Body string
	Headers                  map[string]string
	Status                   int
	Type, Answer             string
}

func exchanges(t testing.TB) []exchange {
	return nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl")
}

// A recordedNode answers as the real node did, and counts calls.
type recordedNode struct {
	rpc, rest *httptest.Server
	targets   map[string]exchange
	unread    map[string]exchange // calls by POST that are not answered with their id, by callKey

	mu       sync.Mutex
	calls    map[string]string // member by callKey
	order    []string          // the keys of calls by POST
	silent   bool              // calls by POST are dropped
	missing  int               // number of calls of abci_query that the others wait for
	complete chan struct{}     // closed when none is missing; nil if they do not wait
	searches chan struct{}     // searches wait until it is closed; nil if they do not wait
}

func newRecordedNode(t testing.TB) *recordedNode {
	n := &recordedNode{calls: map[string]string{}, targets: map[string]exchange{}, unread: map[string]exchange{}}
	all := exchanges(t)
	slices.SortStableFunc(all, func(a, b exchange) int { return strings.Compare(a.Path, b.Path) }) // calls by POST come first
	for _, x := range all {
		n.record(x)
	}
	n.rpc = httptest.NewServer(http.HandlerFunc(n.serveRPC))
	t.Cleanup(n.rpc.Close)
	n.rest = nodetest.REST(t, 746)
	return n
}

// record records the answers to the calls of a request in any form.
func (n *recordedNode) record(x exchange) {
	if x.Path != "/" {
		u, err := url.Parse(x.Path)
		if err != nil {
			return
		}
		n.targets[u.Path+"?"+u.Query().Encode()] = x
		values := u.Query()
		if form, err := url.ParseQuery(x.Body); err == nil && strings.HasPrefix(x.Headers["content-type"], "application/x-www-form") {
			values = form
		}
		method, params := strings.TrimPrefix(u.Path, "/"), paramsOfURI(u.Path, values)
		if _, known := n.calls[callKey(method, params)]; !known && (x.Status == http.StatusOK || strings.Contains(x.Answer, "-32603")) { // the node could read the parameters
			n.answer(method, params, x.Answer)
		}
		return
	}
	type call struct {
		ID     any
		Method string
		Params any
	}
	var one call
	var batch []call
	var answers []json.RawMessage
	if json.Unmarshal([]byte(x.Body), &one) == nil && one.ID != nil {
		if n.answer(one.Method, one.Params, x.Answer); x.Status != http.StatusOK && strings.HasPrefix(x.Name, "refused_") {
			n.unread[callKey(one.Method, one.Params)] = x
		}
	}
	if json.Unmarshal([]byte(x.Body), &batch) != nil || json.Unmarshal([]byte(x.Answer), &answers) != nil {
		return
	}
	for _, one := range batch {
		if one.ID != nil {
			n.answer(one.Method, one.Params, string(answers[0]))
			answers = answers[1:]
		}
	}
}

// answer records the answer to a call.
func (n *recordedNode) answer(method string, params any, answer string) {
	var a struct{ Result, Error json.RawMessage }
	if json.Unmarshal([]byte(answer), &a) != nil {
		return
	}
	member := `"result":` + string(a.Result)
	if a.Result == nil {
		member = `"error":` + string(a.Error)
	}
	if list, ok := params.([]any); ok && method == "block" && len(list) == 1 {
		params = map[string]any{"height": list[0]}
	}
	if members, ok := params.(map[string]any); ok {
		delete(members, "foo") // the node ignores it
	}
	n.calls[callKey(method, params)] = member
}

// paramsOfURI returns the parameters of a URI in the form of JSON.
func paramsOfURI(path string, values url.Values) any {
	params := map[string]any{}
	for name := range values {
		value := values.Get(name)
		if quoted, isBytes := strings.CutPrefix(value, `"`); isBytes && (name == "data" || name == "hash") {
			value = fmt.Sprintf("0x%x", strings.TrimSuffix(quoted, `"`))
		}
		switch binary, isHex := strings.CutPrefix(value, "0x"); {
		case isHex && path == "/block_by_hash" || isHex && path == "/tx":
			b, _ := hex.DecodeString(binary)
			params[name] = base64.StdEncoding.EncodeToString(b)
		case isHex:
			params[name] = binary
		case value == "true":
			params[name] = true
		case value != "":
			params[name] = strings.Trim(value, `"`)
		}
	}
	return params
}

// callKey returns the same key for all encodings of a call that mean the same to the node.
func callKey(method string, params any) string {
	members, ok := params.(map[string]any)
	for name, value := range members {
		if value == nil || value == false || name == "data" && value == "" || name == "height" && (method == "abci_query" && value == "0" || (method == "abci_query" || method == "header") && value == "746") {
			delete(members, name)
			continue
		}
		if s, isText := value.(string); isText && (name == "data" || name == "hash" && method == "header_by_hash") {
			members[name] = strings.ToUpper(s)
		}
	}
	if ok && len(members) == 0 || params == nil {
		return method
	}
	text, _ := json.Marshal(params)
	return method + string(text)
}

func (n *recordedNode) serveRPC(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/websocket" {
		nodetest.ServeSocket(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		n.serveTarget(w, r)
		return
	}
	var c struct {
		Method string
		Params any
	}
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	key := callKey(c.Method, c.Params)
	n.mu.Lock()
	n.order = append(n.order, key)
	silent, complete, searches := n.silent, n.complete, n.searches
	member, known := n.calls[key]
	if complete != nil && c.Method == "abci_query" {
		if n.missing--; n.missing == 0 {
			close(complete)
		}
	}
	n.mu.Unlock()
	if complete != nil && c.Method == "abci_query" {
		<-complete
	}
	if searches != nil && strings.HasSuffix(c.Method, "_search") {
		<-searches
	}
	if silent {
		panic(http.ErrAbortHandler)
	}
	if x, unread := n.unread[key]; unread {
		w.WriteHeader(x.Status)
		_, _ = io.WriteString(w, x.Answer)
		return
	}
	if !known {
		member = fmt.Sprintf(`"error":{"code":-32602,"message":"not recorded","data":%q}`, key)
	}
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,`+member+`}`)
}

func (n *recordedNode) serveTarget(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.order = append(n.order, r.URL.RequestURI())
	n.mu.Unlock()
	if x, known := n.targets[r.URL.Path+"?"+r.URL.Query().Encode()]; known {
		w.Header().Set("Content-Type", x.Type)
		w.WriteHeader(x.Status)
		_, _ = io.WriteString(w, x.Answer)
		return
	}
	http.NotFound(w, r)
}

// setAnswer sets the member that answers calls with a key.
func (n *recordedNode) setAnswer(key, member string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[key] = member
}

// silence makes the node drop calls by POST.
func (n *recordedNode) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = true
}

// countRequests returns the number of requests by callKey or by target.
func (n *recordedNode) countRequests() map[string]int {
	counts := map[string]int{}
	for _, request := range n.callsOf("") {
		counts[request]++
	}
	return counts
}

// countCalls returns the number of calls by POST whose key has a prefix.
func (n *recordedNode) countCalls(prefix string) int { return len(n.callsOf(prefix)) }

// callsOf returns the keys with a prefix, such as a method, of the calls by POST, in order.
func (n *recordedNode) callsOf(prefix string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.order), func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

func newHandler(t testing.TB, n *recordedNode, o rpc.Options, changes ...func(*web.Options)) (*httptest.Server, *prometheus.Registry) {
	t.Helper()
	c := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return newHandlerWith(t, c, n, o, changes...)
}

func newHandlerWith(t testing.TB, c *cache.Cache, n *recordedNode, o rpc.Options, changes ...func(*web.Options)) (*httptest.Server, *prometheus.Registry) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	return newHandlerOf(t, n.pool(t, metrics), metrics, c, o, changes...), metrics
}

func (n *recordedNode) pool(t testing.TB, metrics *prometheus.Registry) *node.Pool {
	t.Helper()
	return nodetest.Run(t, node.Options{
		Settings:  node.Settings{InFlight: 20, Timeout: time.Minute},
		Endpoints: []node.Endpoint{{REST: n.rest.URL, Comet: n.rpc.URL}}, Queue: time.Minute, Registerer: metrics,
	}, 746)
}

// newHandlerOf is newHandlerWith for any nodes.
func newHandlerOf(t testing.TB, nodes blocks.Nodes, metrics *prometheus.Registry, c *cache.Cache, o rpc.Options, changes ...func(*web.Options)) *httptest.Server {
	t.Helper()
	with := web.Options{Registerer: metrics, Limits: limits.Limits{Access: []limits.Rule{{Patterns: []string{"*"}}}}}
	for _, change := range changes {
		change(&with)
	}
	reader := expect.Value(blocks.New(blocks.Options{Nodes: nodes}, web.New(with, c), c))(t)
	o.Posting = cmp.Or(o.Posting, blocks.NewPosting(blocks.Posts{}))
	server := httptest.NewUnstartedServer(rpc.New(o, reader))
	if fast, ok := with.Lane.(*lane.Lane); ok {
		_ = server.Listener.Close()
		server.Listener = expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", conn.Options{Lane: fast.ForRPC(jsonrpc.FindID)}))(t)
		server.Config.ConnContext, server.Config.ConnState = conn.Context, conn.State
	}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// send makes a recorded request.
func (x exchange) send(t testing.TB, base string) (status int, typ, body string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), x.Method, base, strings.NewReader(x.Body)))(t)
	target := expect.Value(url.Parse(base))(t)
	target.Opaque = "//127.0.0.1:45057" + x.Path // the address of the recorded node, which its answers contain
	r.URL = target
	for name, value := range x.Headers {
		r.Header.Set(name, value)
	}
	resp := expect.Value(http.DefaultTransport.RoundTrip(r))(t)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(expect.Value(io.ReadAll(resp.Body))(t))
}

// exceptions are the recordings whose answers differ from the node's, with the reason.
var exceptions = map[string]string{
	"uri_preflight": "preflights are answered",
	"id_float":      "an id is returned as the client wrote it",
}

// perNode are the parts of answers that other nodes may contradict: those about methods, and those of a node that is starting.
var perNode = []string{"unknown query path", "invalid memory address"}

func TestRecordedExchangesGetNodesAnswers(t *testing.T) {
	n := newRecordedNode(t)
	metrics := prometheus.NewRegistry()
	pool := nodetest.Run(t, node.Options{
		Settings:  node.Settings{InFlight: 20, Timeout: time.Minute},
		Endpoints: []node.Endpoint{{REST: n.rest.URL, Comet: n.rpc.URL}, {REST: n.rest.URL, Comet: n.rpc.URL}}, Queue: time.Minute,
	}, 746)
	c := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	server := newHandlerOf(t, pool, metrics, c, rpc.Options{})
	failed := 0.0
	for _, x := range exchanges(t) {
		t.Run(x.Name, func(t *testing.T) {
			before := n.countRequests()
			status, typ, body := x.send(t, server.URL)
			if now := expect.Metric(t, metrics, "tipcache_proxy_requests_total", "server"); now > failed {
				failed = now
				t.Error("the exchange counts as a failure of the server")
			}
			for request, count := range n.countRequests() {
				if count > before[request]+1 && strings.HasPrefix(x.Name, "refused_") && !slices.ContainsFunc(perNode, func(part string) bool { return strings.Contains(x.Answer, part) }) {
					t.Errorf("%s was sent %d times, want once", request, count-before[request])
				}
			}
			if why := exceptions[x.Name]; why != "" {
				return
			}
			if status != x.Status || body != x.Answer || x.Type != "" && typ != x.Type {
				t.Errorf("%s %s %.300s\ngot  %d %s %.400s\nwant %d %s %.400s", x.Method, x.Path, x.Body, status, typ, body, x.Status, x.Type, x.Answer)
			}
		})
	}
}
