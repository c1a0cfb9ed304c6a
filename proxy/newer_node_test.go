package proxy_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// newerNode is a proxy with its RPC in front of a simulated node of a later release.
type newerNode struct {
	*devnet.Devnet
	pool      *node.Pool
	rest, rpc *httptest.Server
}

// newReads begins the names of the methods in rpc.methods.
const newReads = "new_read"

// startNewerNode starts a newerNode whose proxy has a cache of the given size. 0 is the default size.
func startNewerNode(t *testing.T, timeout time.Duration, memory int64) *newerNode {
	t.Helper()
	s := &newerNode{}
	s.Devnet, s.pool = simulate(t, node.Story, devnet.Options{}, timeout)
	c := expect.Value(cache.New(cache.Options{MemoryBytes: memory, Patience: 20 * time.Second, FlightTimeout: 5 * time.Minute, EncodeAtOnce: true}))(t)
	t.Cleanup(func() { _ = c.Close() })
	p := expect.Value(proxy.New(proxy.Options{Cache: c, Chain: blocks.Options{Nodes: s.pool}, RPC: &rpc.Options{Settings: rpc.Settings{Methods: []string{newReads, newReads + "_stream", newReads + "_hang", newReads + "_page", newReads + "_huge"}}}}))(t)
	s.rest, s.rpc = httptest.NewServer(p), httptest.NewServer(p.RPC())
	t.Cleanup(s.rest.Close)
	t.Cleanup(s.rpc.Close)
	s.advance(t)
	return s
}

func (s *newerNode) advance(t *testing.T) {
	t.Helper()
	s.Advance(1)
	expect.NoError(t, s.pool.WaitHeight(t.Context(), s.Height()))
}

// ask sends a GET for a path that begins with a slash, and otherwise calls a method by POST.
func (s *newerNode) ask(t *testing.T, name string) (status int, body string) {
	t.Helper()
	method, target, content := http.MethodGet, s.rest.URL+name, ""
	if name[0] != '/' {
		method, target, content = http.MethodPost, s.rpc.URL, fmt.Sprintf(`{"id":1,"method":%q,"params":{"a":1}}`, name)
	}
	r := expect.Value(http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(content)))(t)
	resp := expect.Value(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(text)
}

// respondWith responds with a body of a type. In JSON-RPC the body is the result of the call.
func respondWith(typ, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typ)
		call, _ := io.ReadAll(r.Body)
		reply := body
		if id := gjson.GetBytes(call, "id").Raw; id != "" && typ == "application/json" {
			reply = `{"jsonrpc":"2.0","id":` + id + `,"result":` + body + `}`
		}
		_, _ = io.WriteString(w, reply)
	}
}

// respondForever sends a chunk and does not end the response.
func respondForever(typ, chunk string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typ)
		_, _ = io.WriteString(w, chunk)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// respondHuge sends data until the reader closes the connection.
func respondHuge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(w, `{"code":200,"msg":"`)
	for chunk := strings.Repeat("x", 1<<20); err == nil; _, err = io.WriteString(w, chunk) {
	}
}

// Routes and methods that no table describes are answered with the node's response, or refused. Their responses are
// cached for one block only, and other paths are not affected.
func TestUnknownRoutesOfNewerNodesAreAnsweredOrRefused(t *testing.T) {
	s := startNewerNode(t, time.Second, 0)
	const good = `{"code":200,"msg":{"a":1},"error":""}`
	var count atomic.Int64
	counter := func(w http.ResponseWriter, r *http.Request) {
		respondWith("application/json", fmt.Sprintf(`{"code":200,"msg":{"n":"%d"},"error":""}`, count.Add(1)))(w, r)
	}
	for name, h := range map[string]http.HandlerFunc{
		"/new/one": respondWith("application/json", good), "/new/two": respondWith("application/json", good), newReads: respondWith("application/json", good),
		"/new/clock": counter, "/new/mempool": counter, "/new/version": counter,
		"/new/events": respondForever("text/event-stream", "data: 1\n\n"), "/new/lines": respondForever("text/plain", "1\n"), "/new/feed": respondForever("application/json", `{"code":200,`), newReads + "_stream": respondForever("application/json", `{"result":`),
		"/new/query": respondWith("application/json", good), "new_unnamed": respondWith("application/json", good),
		"/new/hang": hang, newReads + "_hang": hang,
		"/new/page": respondWith("text/html", "<html>"), newReads + "_page": respondWith("text/html", "<html>"), "/new/huge": respondHuge, newReads + "_huge": respondHuge,
		"/new/moved": http.RedirectHandler("/new/one", http.StatusMovedPermanently).ServeHTTP, "/new/missing": respondWith("text/plain", "?"),
	} {
		s.Node().Handle(name, h)
	}
	for range 2 {
		var all sync.WaitGroup
		for name, want := range map[string]string{
			"/new/one": "200 " + good, "/new/two": "200 " + good, newReads: "200 " + `{"jsonrpc":"2.0","id":1,"result":` + good + `}`,
			"/new/clock": "200 ", "/new/mempool": "200 ", "/new/version": "200 ",
			"/new/events": "502 ", "/new/lines": "502 ", "/new/feed": "50", newReads + "_stream": "50",
			"new_unnamed": `200 {"jsonrpc":"2.0","id":1,"error":{"code":-32601`,
			"/new/hang":   "50", newReads + "_hang": "50",
			"/new/page": "404 ", newReads + "_page": "502 ", "/new/huge": "502 ", newReads + "_huge": "502 ",
			"/new/moved": "404 ", "/new/missing": "502 ", "/new/absent": "404 ",
			"/staking/pool": "200 ", "/staking/params": "200 ", "status": "200 ",
		} {
			all.Go(func() {
				if status, body := s.ask(t, name); !strings.HasPrefix(fmt.Sprint(status, " ", body), want) && status != http.StatusTooManyRequests {
					t.Errorf("response to %s = %d %.200s, want %s", name, status, body, want)
				}
			})
		}
		all.Wait()
		s.advance(t)
	}
	for _, path := range []string{"/new/clock", "/new/hang", "/new/feed"} {
		s.Node().Handle(path, counter)
		_, before := s.ask(t, path)
		_, again := s.ask(t, path)
		s.advance(t)
		if _, after := s.ask(t, path); before != again || after == before || !strings.HasPrefix(after, `{"code":200`) {
			t.Errorf("responses to %s = %s, %s, and %s at the next block; want one value for each block", path, before, again, after)
		}
	}
	resp := expect.Value(http.Post(s.rest.URL+"/new/query", "application/json", strings.NewReader("{}")))(t)
	_ = resp.Body.Close()
	expect.Equal(t, resp.StatusCode, http.StatusMethodNotAllowed, "status of a POST")
}

// Requests for random paths on many connections use neither the node slots nor the cache memory of other requests. Some
// of the paths hang, the node does not have others, and some have long responses.
func TestRandomPathsDoNotAffectOtherPaths(t *testing.T) {
	paths := 2500 // a third of them, with 100 kB each, exceed the memory
	if raced {
		paths = 1000
	}
	s := startNewerNode(t, 500*time.Millisecond, 64<<20)
	for i := range 20 {
		s.Node().Handle(fmt.Sprint("/hang/", i), hang)
		s.Node().Handle(fmt.Sprint("/good/", i), respondWith("application/json", `{"code":200,"msg":"`+strings.Repeat("x", 100_000)+`","error":""}`))
	}
	knownPaths := []string{"/staking/pool", "/staking/params", "/mint/params", "/staking/validators", "/auth/params"}
	var clients sync.WaitGroup
	var requests, internalErrors atomic.Int64
	for range 50 {
		clients.Go(func() {
			for requests.Add(1) < int64(paths) {
				first := [...]string{"good", "none", fmt.Sprint(rand.Uint64())}[rand.IntN(3)]
				if rand.IntN(500) == 0 {
					first = "hang"
				}
				path := fmt.Sprintf("/%s/%d?n=%d", first, rand.IntN(20), rand.IntN(1000))
				if status, _ := s.ask(t, path); status == http.StatusInternalServerError {
					internalErrors.Add(1)
				}
			}
		})
	}
	for range 5 {
		s.advance(t)
		for _, path := range knownPaths {
			for range 2 { // from the node and from memory
				status, body := s.ask(t, path)
				expect.Equal(t, status, http.StatusOK, "status of %s during the flood (%.200s)", path, body)
			}
		}
	}
	clients.Wait()
	s.advance(t)
	for _, path := range knownPaths {
		s.ask(t, path)
	}
	for _, path := range knownPaths {
		resp := expect.Value(http.Get(s.rest.URL + path))(t)
		_ = resp.Body.Close()
		expect.Contains(t, resp.Header.Get("Cache-Status"), "hit", "Cache-Status of %s after the flood", path)
	}
	expect.Equal(t, internalErrors.Load(), 0, "internal errors")
}
