package lane_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// A memoryStack serves every path from memory. /keyed requires an API key.
type memoryStack struct {
	*web.Stack
	lane    *lane.Lane
	metrics *prometheus.Registry
	log     logtest.Log // access log
	text    string      // of the responses
	handled atomic.Int64
	evicted atomic.Bool
	panics  atomic.Bool // of the next Replay
}

func newMemoryStack(text string) *memoryStack {
	m := &memoryStack{metrics: prometheus.NewRegistry(), text: text}
	m.lane = lane.New(lane.Options{Registerer: m.metrics})
	m.Stack = web.New(web.Options{
		Record: record.Options{AccessLog: &m.log},
		Lane:   m.lane, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Keys: []limits.Key{{Name: "tester", SHA256: sha256.Sum256([]byte(productKey))}},
	}, nil)
	return m
}

// serve serves HTTP/1 and HTTP/2 without TLS.
func (m *memoryStack) serve(t *testing.T, l net.Listener) {
	engine := m.NewEngine(nil, func(r *web.Request) web.Route {
		return web.Route{Name: "any", Keyed: r.URL.Path == "/keyed", Serve: m.handle, Render: func(_ *web.Request, _ http.Header, f *failure.Failure) (int, string, []byte) {
			return f.Status, "text/plain", []byte(f.Public)
		}}
	})
	server := &http.Server{
		Handler:     engine.Handler(),
		ConnContext: conn.Context, ConnState: conn.State, Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

func (m *memoryStack) handle(r *web.Request) error {
	m.handled.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if from, to, ok := jsonrpc.FindID(string(body)); ok {
		r.Record.CallerID = string(body[from:to])
	}
	var a respond.Response
	m.Replay(&r.Record, &a)
	r.Record.Replayer = m
	m.Responder.Respond(r.Writer, r.Request, &a)
	return nil
}

// Replay implements [record.Replayer]. A caller with an id gets it in its response.
func (m *memoryStack) Replay(rec *record.Record, a *respond.Response) bool {
	if m.panics.Swap(false) {
		panic("replay")
	}
	if m.evicted.Load() {
		return false
	}
	a.Entry = &cache.Entry{Content: cache.NewContent(http.StatusOK, "application/json", "", []byte(m.text), 0), Height: 7, ReadAt: rec.Start}
	a.Outcome, a.Store, a.Now = cache.Hit, "memory", rec.Start
	if rec.CallerID != "" {
		a.Body = fmt.Appendf(rec.Buffer[:0], `{"id":%s}`, rec.CallerID)
	}
	rec.Result(a.Result)
	return true
}

// lookups returns how many requests were answered, declined and unknown.
func (m *memoryStack) lookups(t *testing.T) (n [3]float64) {
	for i, result := range []string{"answered", "declined", "unknown"} {
		n[i] = expect.Metric(t, m.metrics, "tipcache_proxy_fast_lane_requests_total", result)
	}
	return n
}

// A laneListener accepts connections with a lane.
type laneListener struct {
	net.Listener
	lane conn.Lane
}

func (l laneListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.New(c, l.lane, nil, nil), nil
}

// A lane of HTTP/2 reads no connections: in the product they carry TLS.
type http2Lane struct{ web.Lane }

func (http2Lane) Wrap(*conn.Conn, net.Conn) conn.LaneConn { return nil }

// startHTTP2 returns a function that makes an HTTP/2 request, waits for its line in the access log, and returns the
// status and everything that does not vary.
func (m *memoryStack) startHTTP2(t *testing.T, l conn.Lane) (fetch func(method, path string, header ...string) (status int, all string)) {
	t.Helper()
	listener := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	m.serve(t, laneListener{listener, http2Lane{l.(web.Lane)}})
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return func(method, path string, header ...string) (int, string) {
		t.Helper()
		r := expect.Value(http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, nil))(t)
		id := fmt.Sprintf("request-%d.", m.log.Count("\n"))
		r.Host = "x"
		r.Header.Set("X-Request-Id", id)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		resp := expect.Value(transport.RoundTrip(r))(t)
		defer resp.Body.Close()
		body := expect.Value(io.ReadAll(resp.Body))(t)
		if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
			t.Errorf("Date of %s %s = %q, %v", method, path, resp.Header.Get("Date"), err)
		}
		resp.Header.Del("Date")
		expect.Eventually(t, "the request is logged", func() bool { return strings.Contains(m.log.String(), id) })
		lines := strings.Split(strings.TrimSpace(m.log.String()), "\n")
		line := passingInLog.ReplaceAllString(lines[len(lines)-1], "")
		return resp.StatusCode, strings.ReplaceAll(fmt.Sprintf("%d %v\n%s\n%s", resp.StatusCode, resp.Header, body, line), id, "ID")
	}
}

func TestHandlerServesHTTP2IfReplayerPanics(t *testing.T) {
	m := newMemoryStack("text")
	fetch := m.startHTTP2(t, m.lane)
	expect.Eventually(t, "the lane answers", func() bool {
		fetch("GET", "/a")
		return m.lookups(t)[0] > 0
	})
	handled := m.handled.Load()
	m.panics.Store(true)
	if status, _ := fetch("GET", "/a"); status != http.StatusOK || m.handled.Load() != handled+1 {
		t.Errorf("status = %d, handler served %d; want 200 and 1", status, m.handled.Load()-handled)
	}
}

func TestLaneAnswersHTTP2AsTheHandlerDoes(t *testing.T) {
	m := newMemoryStack(`{"text":"from memory"}`)
	fetch := m.startHTTP2(t, m.lane)
	for _, request := range [][]string{
		{"GET", "/a"}, {"HEAD", "/b"}, {"GET", "/c", "If-None-Match", "*"}, {"GET", "/keyed", "X-Api-Key", productKey}, {"GET", "/e", "X-Api-Key", "x"},
	} {
		_, want := fetch(request[0], request[1], request[2:]...)
		expect.Eventually(t, fmt.Sprint("the lane answers ", request), func() bool {
			handled := m.handled.Load()
			_, got := fetch(request[0], request[1], request[2:]...)
			expect.NoDiff(t, got, want, "response and log line of %v", request)
			return m.handled.Load() == handled
		})
	}
	for name, tt := range map[string]struct {
		request []string
		status  int
		looked  [3]float64 // lookups
	}{
		"another path":               {request: []string{"GET", "/d"}, status: 200, looked: [3]float64{0, 0, 1}},
		"a method without a lane":    {request: []string{"POST", "/a"}, status: 200},
		"two values of a header":     {request: []string{"GET", "/a", "X-Block-Height", "1", "X-Block-Height", "2"}, status: 200},
		"a session that is no token": {request: []string{"GET", "/a", "X-Session", "x"}, status: 200, looked: [3]float64{0, 1, 0}},
		"no API key":                 {request: []string{"GET", "/keyed"}, status: 401, looked: [3]float64{0, 1, 0}},
		"the wrong API key":          {request: []string{"GET", "/keyed", "X-Api-Key", "x"}, status: 401, looked: [3]float64{0, 1, 0}},
	} {
		before, handled := m.lookups(t), m.handled.Load()
		status, all := fetch(tt.request[0], tt.request[1], tt.request[2:]...)
		after := m.lookups(t)
		for i := range after {
			after[i] -= before[i]
		}
		if served := m.handled.Load() - handled; status != tt.status || after != tt.looked || served != 1 && status == http.StatusOK {
			t.Errorf("%s: status = %d, lookups = %v, handler served %d; want %d, %v and 1\n%s", name, status, after, served, tt.status, tt.looked, all)
		}
	}
	before := m.lookups(t)
	m.lane.Drain()
	fetch("GET", "/a")
	expect.Equal(t, m.lookups(t), before, "lookups after Drain")
}

// A client of the RPC listener gets its own id in the response, and no response of the public listener.
func TestRPCLaneAnswersOnlyPOSTsWithAnID(t *testing.T) {
	m := newMemoryStack(`{"text":"from memory"}`)
	forRPC := m.lane.ForRPC(jsonrpc.FindID)
	public, rpc := m.startHTTP2(t, m.lane), m.startHTTP2(t, forRPC)
	expect.Eventually(t, "the lane answers /a", func() bool {
		public("GET", "/a")
		return m.lookups(t)[0] > 0
	})
	rpc("GET", "/a") // the lane looks at the first bytes of the connection
	before, size := m.lookups(t), m.lane.Bytes()
	for _, path := range []string{"/a", "/b", "/c"} {
		rpc("GET", path)
	}
	if got := m.lookups(t); got != before || m.lane.Bytes() != size {
		t.Errorf("after HTTP/2 requests: lookups = %v, %d bytes stored; want %v and %d", got, m.lane.Bytes(), before, size)
	}

	connections := newWires(func(c net.Conn) net.Conn { return conn.New(c, forRPC, nil, nil) })
	m.serve(t, connections)
	w := connections.dial()
	w.send([]byte("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"))
	w.settle()
	expect.Equal(t, m.lookups(t)[0], before[0], "lookups answered after a GET")
	for _, tt := range []struct {
		body     string
		answered bool
	}{
		{`{"id":1,"method":"a"}`, false}, {`{"id":1,"method":"a"}`, false}, {`{"id":1,"method":"a"}`, true},
		{`{"id":"two","method":"a"}`, true}, {`{"id":3,"method":"b"}`, false},
		{`{"method":"a"}`, false}, {`{"method":"a"}`, false}, {`{"method":"a"}`, false},
	} {
		before := m.lookups(t)
		before[2]++
		if tt.answered {
			before[0], before[2] = before[0]+1, before[2]-1
		}
		w.send(fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(tt.body), tt.body))
		w.settle()
		expect.Equal(t, m.lookups(t), before, "lookups with %q", tt.body)
		want := m.text
		if id, _, ok := strings.Cut(tt.body, `,`); ok {
			want = id + "}"
		}
		if got := w.output(); !strings.HasSuffix(got, "\r\n\r\n"+want) {
			t.Errorf("response to %q ends with %q, want %q", tt.body, got[max(0, len(got)-100):], want)
		}
	}
}

// A balancer may send both on one connection.
func TestLaneAnswersRequestsAfterAHealthCheck(t *testing.T) {
	m := newMemoryStack("text")
	connections := newWires(func(c net.Conn) net.Conn { return conn.New(c, m.lane, nil, nil) })
	m.serve(t, connections)
	w := connections.dial()
	for _, path := range []string{"/a", web.ReadyPath, "/a", web.HealthPath, "/a"} {
		w.send([]byte("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"))
		w.settle()
	}
	expect.Equal(t, m.lookups(t), [3]float64{2, 0, 3}, "lookups")
}

// The memory of responses that clients read slowly is counted.
func TestConnectionListsALongBodyWhileTheLaneWritesIt(t *testing.T) {
	m := newMemoryStack(`{"text":"` + strings.Repeat("x", 100<<10) + `"}`)
	var client *conn.Conn
	connections := newWires(func(c net.Conn) net.Conn {
		client = conn.New(c, m.lane, nil, nil)
		return client
	})
	m.serve(t, connections)
	w := connections.dial()
	w.send([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	w.settle()
	w.setCapacity(none)
	w.send([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	listed := func() (size int) {
		client.EachBody(func(body []byte) { size += len(body) })
		return size
	}
	expect.EventuallyEqual(t, "EachBody lists the body", listed, len(m.text))
	w.setCapacity(all)
	w.settle()
	if got := w.output(); strings.Count(got, m.text) != 2 || listed() != 0 || m.handled.Load() != 1 {
		t.Errorf("%d bytes sent, %d listed, handler served %d; want two responses, 0 and 1", len(got), listed(), m.handled.Load())
	}
}

func TestRepeatedCallIsAnsweredFromMemory(t *testing.T) {
	m := newMemoryStack(`a message`)
	calls := m.lane.ForCalls()
	client := conn.New(newWire(), calls, nil, nil)
	// call makes a call, registers it as a handler does, and returns the text that the lane has for it.
	call := func(message string, keyed bool, end error, metadata map[string][]string) (text string) {
		t.Helper()
		c, _ := lane.StartCall(client, "/query/Pool", metadata, keyed, time.Now())
		if c == nil {
			return "not started"
		}
		defer c.Release()
		hit, ok := c.Find([]byte(message))
		if ok {
			expect.Equal(t, hit.Record.ID[0], metadata["x-request-id"][0], "request id")
			c.End(len(hit.Response.Entry.Body), end)
			return string(hit.Response.Entry.Body)
		}
		c.Put(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/query/Pool", nil), record.Head{}, &record.Record{Route: "Pool", Keyed: keyed, Replayer: m})
		return ""
	}
	id := map[string][]string{"x-request-id": {"mine"}}
	withKey := map[string][]string{"x-request-id": {"mine"}, "x-api-key": {productKey}}
	for i, tt := range []struct {
		message  string
		keyed    bool
		metadata map[string][]string
		want     string
	}{
		{message: "m", metadata: id}, {message: "m", metadata: id}, {message: "m", metadata: id, want: m.text},
		{message: "other", metadata: id},
		{message: "m", metadata: map[string][]string{"x-cosmos-block-height": {"5"}}},
		{message: "m", metadata: map[string][]string{"x-request-id": {"1", "2"}}, want: "not started"},
		{message: "m", keyed: true, metadata: id, want: "not started"},
		{message: "m", keyed: true, metadata: withKey}, {message: "m", keyed: true, metadata: withKey, want: m.text},
		{message: "m", metadata: id}, // it required a key the last time
	} {
		expect.Equal(t, call(tt.message, tt.keyed, nil, tt.metadata), tt.want, "response %d", i)
	}
	expect.Equal(t, m.lookups(t), [3]float64{2, 2, 4}, "lookups")
	m.evicted.Store(true)
	expect.Equal(t, call("m", false, nil, id), "", "response after the eviction")
	m.evicted.Store(false)
	before := len(m.log.String())
	expect.Equal(t, call("m", false, nil, id), m.text, "response")
	expect.Equal(t, call("m", false, errors.New("reset"), id), m.text, "response that could not be sent")
	if got := m.log.String()[before:]; strings.Count(got, "\n") != 2 || strings.Count(got, `"status":200,"bytes":9,`) != 1 || strings.Count(got, `"status":500,"bytes":0,`) != 1 {
		t.Errorf("log = %s, want a line with status 200 and one with 500", got)
	}
	m.panics.Store(true)
	expect.Equal(t, call("m", false, nil, id), "", "response whose preparation panics")
	if c, _ := lane.StartCall(conn.New(newWire(), nil, nil, nil), "/query/Pool", id, false, time.Now()); c != nil {
		t.Error("StartCall returned a call on a connection without a lane")
	}
	m.lane.Drain()
	expect.Equal(t, call("m", false, nil, id), "not started", "response after Drain")
}
