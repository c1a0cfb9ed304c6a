package lane_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/lane/heads"
)

// A server responds to each request with its parts. It registers requests for /memory with the lane. Handler and lane
// write the same bytes.
type server struct {
	*wires
	http    *http.Server
	lane    *lane.Lane    // nil without a lane
	version atomic.Int64  // of the data in memory
	hits    atomic.Int64  // requests served by the lane
	handled atomic.Int64  // requests served by the handler
	slow    chan struct{} // if not nil, the lane's handler waits for it
}

// panics is a version at which the lane's handler panics.
const panics = 1 << 40

type connKey struct{}

func startServer(tb testing.TB, l *lane.Lane, configure ...func(*http.Server)) *server {
	tb.Helper()
	s := &server{lane: l}
	s.version.Store(1)
	s.wires = newWires(func(c net.Conn) net.Conn {
		if l == nil {
			return c
		}
		return l.NewConn(c)
	})
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.handle), MaxHeaderBytes: 8 << 10,
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := c.(*lane.Conn); ok {
				c.State(state)
			}
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	for _, f := range configure {
		f(s.http)
	}
	go s.http.Serve(s.wires)
	tb.Cleanup(func() { s.http.Close() })
	return s
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	s.handled.Add(1)
	conn, _ := r.Context().Value(connKey{}).(*lane.Conn)
	if conn != nil {
		conn.BeginRequest(r)
	}
	body, err := io.ReadAll(r.Body)
	version := s.version.Load() // after the whole request has arrived
	if err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	h := w.Header()
	h["Date"] = nil // the only allowed difference
	id := r.Header.Get("X-Request-Id")
	h.Set("X-Request-Id", id)
	write := func(version int64) string {
		text := fmt.Sprintf("%s %s %s v%d %q\n", r.Method, r.URL, r.Host, version, body)
		if strings.HasPrefix(r.URL.Path, "/memory/large") {
			text += strings.Repeat("x", 10<<10)
		}
		if strings.HasPrefix(r.URL.Path, "/memory/larger") {
			text += strings.Repeat("0123456789", 30<<10)
		}
		return text
	}
	text := write(version)
	h.Set("Content-Length", fmt.Sprint(len(text)))
	h.Set("Content-Type", "text/plain")
	if r.Method != http.MethodHead {
		io.WriteString(w, text)
	}
	if strings.HasPrefix(r.URL.Path, "/memory") && conn != nil && conn.WantsHandler() {
		conn.PutHandler(r, &echo{server: s, text: write, head: r.Method == http.MethodHead})
	}
}

// echo is the lane's handler of one key.
type echo struct {
	server *server
	text   func(version int64) string
	head   bool
}

func (e *echo) Respond(hit *lane.Hit) bool {
	version := e.server.version.Load()
	if version == panics {
		panic("a handler has a defect")
	}
	if version%7 == 0 {
		return false // as if the entry was evicted
	}
	text := e.text(version)
	if e.server.slow != nil {
		<-e.server.slow
	}
	closes := ""
	if hit.Request.Close && hit.Request.Minor == 1 {
		closes = "Connection: close\r\n"
	}
	id := hit.Request.Value(heads.RequestID)
	hit.Head = fmt.Appendf(hit.Head, "HTTP/1.%d 200 OK\r\nContent-Length: %d\r\nContent-Type: text/plain\r\nX-Request-Id: %s\r\n%s\r\n", hit.Request.Minor, len(text), id, closes)
	if !e.head {
		hit.Body = []byte(text)
	}
	return true
}

func (e *echo) Done(*lane.Hit) { e.server.hits.Add(1) }

func newLane() *lane.Lane {
	return lane.New(lane.Options{IdleTimeout: time.Minute, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute})
}

// learn sends requests until the lane has stored them.
func learn(p player, requests ...string) {
	for _, request := range requests {
		for range handledBefore(request) {
			w := p.dial()
			w.send([]byte(request))
			w.settle()
			w.end()
			w.waitClosed()
		}
	}
}

// handledBefore returns how often net/http's handler serves a request before the lane does.
func handledBefore(request string) int64 {
	if strings.HasPrefix(request, http.MethodPost) {
		return 2
	}
	return 1
}

const getA = "GET /memory/a HTTP/1.1\r\nHost: x\r\n\r\n"
