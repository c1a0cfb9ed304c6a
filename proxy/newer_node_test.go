package proxy_test

import (
	"context"
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

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A newerService is a proxy with its RPC in front of a simulated node of a later release.
type newerService struct {
	*devnet.Devnet
	pool      *node.Pool
	rest, rpc *httptest.Server
}

// newReads is a method that the operator names in rpc.methods, as those that begin with it.
const newReads = "new_read"

func startNewerNode(t *testing.T, timeout time.Duration) *newerService {
	t.Helper()
	s := &newerService{Devnet: devnettest.Start(t, devnet.Options{Interval: -1})}
	s.pool = expect.Value(node.New(node.Options{Endpoints: []node.Endpoint{{REST: s.NodeURL(), Comet: s.CometURL()}}, BlockInterval: time.Minute, Timeout: timeout}))(t)
	ended := make(chan error, 1)
	go func() { ended <- s.pool.Run(context.Background()) }()
	t.Cleanup(func() { _ = s.pool.Close(); <-ended })
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: s.pool}, RPC: &rpc.Options{
		Methods: []string{newReads, newReads + "_stream", newReads + "_hang", newReads + "_page", newReads + "_huge"},
	}}))(t)
	s.rest, s.rpc = httptest.NewServer(p), httptest.NewServer(p.RPC())
	t.Cleanup(s.rest.Close)
	t.Cleanup(s.rpc.Close)
	s.advance(t)
	return s
}

func (s *newerService) advance(t *testing.T) {
	t.Helper()
	s.Advance(1)
	expect.NoError(t, s.pool.WaitHeight(t.Context(), s.Height()))
}

// ask sends a GET for a path, or with a name that does not begin with a slash calls a method by POST.
func (s *newerService) ask(t *testing.T, name string) (status int, body string) {
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

// The handlers of a later release, by what they do.

// says answers a body of a type, by JSON-RPC as the result of the call.
func says(typ, body string) http.HandlerFunc {
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

// neverEnds sends a chunk and then holds the response open.
func neverEnds(typ, chunk string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typ)
		_, _ = io.WriteString(w, chunk)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// huge sends 100 MB, until the reader leaves.
func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(w, `{"code":200,"msg":"`)
	for chunk := strings.Repeat("x", 1<<20); err == nil; _, err = io.WriteString(w, chunk) {
	}
}

// Twenty routes and methods that no table has are answered as the node answers, or refused. Nothing of them is kept
// beyond the block, and the other paths go on.
func TestRoutesOfNewerNodesAreAnsweredOrRefused(t *testing.T) {
	s := startNewerNode(t, time.Second)
	const good = `{"code":200,"msg":{"a":1},"error":""}`
	var clock atomic.Int64
	counts := func(w http.ResponseWriter, r *http.Request) {
		says("application/json", fmt.Sprintf(`{"code":200,"msg":{"n":"%d"},"error":""}`, clock.Add(1)))(w, r)
	}
	for name, h := range map[string]http.HandlerFunc{
		"/new/one": says("application/json", good), "/new/two": says("application/json", good), newReads: says("application/json", good),
		"/new/clock": counts, "/new/mempool": counts, "/new/version": counts,
		"/new/events": neverEnds("text/event-stream", "data: 1\n\n"), "/new/lines": neverEnds("text/plain", "1\n"), "/new/feed": neverEnds("application/json", `{"code":200,`), newReads + "_stream": neverEnds("application/json", `{"result":`),
		"/new/query": says("application/json", good), "new_unnamed": says("application/json", good),
		"/new/hang": hangs, newReads + "_hang": hangs,
		"/new/page": says("text/html", "<html>"), newReads + "_page": says("text/html", "<html>"), "/new/huge": huge, newReads + "_huge": huge,
		"/new/moved": http.RedirectHandler("/new/one", http.StatusMovedPermanently).ServeHTTP, "/new/missing": says("text/plain", "?"),
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
					t.Errorf("%s: %d %.200s, want %s", name, status, body, want)
				}
			})
		}
		all.Wait()
		s.advance(t)
	}
	for _, path := range []string{"/new/clock", "/new/hang", "/new/feed"} {
		s.Node().Handle(path, counts)
		_, before := s.ask(t, path)
		_, again := s.ask(t, path)
		s.advance(t)
		if _, after := s.ask(t, path); before != again || after == before || !strings.HasPrefix(after, `{"code":200`) {
			t.Errorf("%s: %s, %s, and %s at the next block; want a value for each block", path, before, again, after)
		}
	}
	resp := expect.Value(http.Post(s.rest.URL+"/new/query", "application/json", strings.NewReader("{}")))(t)
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d, want 405", resp.StatusCode)
	}
}

// A client that asks for random paths, on many connections, takes neither turns nor entries from others. Some
// paths hang, and the node says of the others that it does not have them, or answers at length.
func TestRandomPathsTakeNothingFromOthers(t *testing.T) {
	paths := 10_000
	if raced {
		paths = 1000
	}
	s := startNewerNode(t, 100*time.Millisecond)
	for i := range 20 {
		s.Node().Handle(fmt.Sprint("/hang/", i), hangs)
		s.Node().Handle(fmt.Sprint("/good/", i), says("application/json", `{"code":200,"msg":"`+strings.Repeat("x", 100_000)+`","error":""}`))
	}
	known := []string{"/staking/pool", "/staking/params", "/mint/params", "/staking/validators", "/auth/params"}
	flooding, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var asked, broken atomic.Int64
	for range 50 {
		clients.Go(func() {
			for asked.Add(1) < int64(paths) && flooding.Err() == nil {
				first := [...]string{"good", "none", fmt.Sprint(rand.Uint64())}[rand.IntN(3)]
				if rand.IntN(500) == 0 {
					first = "hang"
				}
				path := fmt.Sprintf("/%s/%d?n=%d", first, rand.IntN(20), rand.IntN(1000))
				if status, _ := s.ask(t, path); status == http.StatusInternalServerError {
					broken.Add(1)
				}
			}
		})
	}
	for range 5 {
		s.advance(t)
		for _, path := range known {
			for range 2 { // from the node and from memory
				if status, body := s.ask(t, path); status != http.StatusOK {
					t.Errorf("%s during the flood: %d %.200s, want 200", path, status, body)
				}
			}
		}
	}
	clients.Wait()
	stop()
	s.advance(t)
	for _, path := range known {
		s.ask(t, path)
	}
	for _, path := range known {
		resp := expect.Value(http.Get(s.rest.URL + path))(t)
		_ = resp.Body.Close()
		expect.Contains(t, resp.Header.Get("Cache-Status"), "hit", "Cache-Status of %s after the flood", path)
	}
	expect.Equal(t, broken.Load(), 0, "internal errors")
}
