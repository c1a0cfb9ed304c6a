// Package lane answers requests that memory can answer inside a connection's Read,
// while net/http waits there for the next request.
//
// net/http owns the connection, and a request that is new goes to it and to its handler. A
// handler that answered one from memory leaves a [Handler] behind, which the lane
// remembers under what the request means, one with a body when it comes again:
//
//  1. net/http calls Read between two requests (conn.go);
//  2. package heads reads what came, strictly: of what it takes net/http would
//     understand the same. Its key is the method, the target and the few headers that
//     choose between answers (table.go);
//  3. the key's Handler makes the answer for the values of this request, the lane writes it
//     (hit.go), and goes on to the next request;
//  4. whatever is not a whole request of a key that is known goes to net/http
//     unchanged, and shuts the lane until net/http has provably consumed just
//     that (boundary.go).
//
// replay.go has the handlers of requests that the stack of package web answered. multiplexed.go answers HTTP/2
// requests. rpc.go is the lane of the RPC's listener, whose responses repeat the id of a call, and grpc.go that of
// gRPC's listener.
package lane

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
)

// Options configure a Lane. The times are those of its http.Server.
type Options struct {
	IdleTimeout       time.Duration // how long a connection may wait for the next request; 0: for any time
	ReadHeaderTimeout time.Duration // how long a request's header may take; 0: any time
	WriteTimeout      time.Duration // how long an answer may take to be written; 0: any time

	Memory     *account.Account      // in which what is remembered is reserved; nil: 8 MiB of its own
	Registerer prometheus.Registerer // nil: no metrics
}

// A Lane has what the connections of one http.Server have in common. It is
// safe for concurrent use.
type Lane struct {
	o        Options
	stack    *web.Stack // whose requests are answered
	table    atomic.Pointer[table]
	draining atomic.Bool
	held     atomic.Int64                                             // beginnings of requests
	bodies   sightings                                                // of POSTs and calls that are not remembered
	requests struct{ answered, declined, unknown prometheus.Counter } // declined: known, but not to be answered from memory now

	mu        sync.Mutex
	unserved  map[*Conn]bool // answered here, and new to net/http
	lingering sync.WaitGroup // connections that are closed after the answer in progress
}

var _ web.Lane = (*Lane)(nil)

// New returns a lane that knows no request yet.
func New(o Options) *Lane {
	l := &Lane{o: o, unserved: map[*Conn]bool{}}
	l.table.Store(newTable(l))
	total := promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_fast_lane_requests_total",
		Help: "Requests looked up in the fast lane, by result: answered, declined (known, but memory has no fresh response) or unknown.",
	}, []string{"result"})
	l.requests.answered = total.WithLabelValues("answered")
	l.requests.declined = total.WithLabelValues("declined")
	l.requests.unknown = total.WithLabelValues("unknown")
	promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_proxy_fast_lane_bytes",
		Help: "Memory used by the fast lane's table of requests, in bytes.",
	}, func() float64 { return float64(l.Bytes()) })
	return l
}

// Use implements [web.Lane].
func (l *Lane) Use(s *web.Stack) { l.stack = s }

// Forget empties the lane. Whatever a handler was made of may change before
// Forget is called: requests that arrive after it has returned are answered by
// net/http's handler first, and what handlers are about to leave behind that
// began before it is dropped.
func (l *Lane) Forget() { l.table.Swap(newTable(l)).drop() }

// Bytes is what the requests remembered take, or so.
func (l *Lane) Bytes() int { return int(l.table.Load().known.WeightedSize()) }

// Drain ends answering: net/http gets all requests from now on.
func (l *Lane) Drain() { l.draining.Store(true) }

// Wrap gives the connection that http.Server is to read: below carries the requests of its client's
// connection.
func (l *Lane) Wrap(of *conn.Conn, below net.Conn) conn.LaneConn {
	c := l.NewConn(below)
	c.client = of
	return c
}

// PlaceOf is where the answer to a request may be left that came on a connection, nil for nowhere.
func (l *Lane) PlaceOf(r *http.Request, on conn.LaneConn) record.Place {
	if l.draining.Load() {
		return nil
	}
	if r.ProtoMajor > 1 {
		return l.table.Load()
	}
	if c, ok := on.(*Conn); ok && c.Wants() {
		return c
	}
	return nil
}

// CloseNew closes the connections that wait for a request and of which net/http
// believes that the first one is still to come: http.Server.Shutdown would give
// them five seconds. It is for the time of that call.
func (l *Lane) CloseNew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.unserved {
		_ = c.Close()
	}
}

// Wait returns once the answers are written that were in progress when their
// connections were closed, or ctx ends. Call it after
// http.Server.Shutdown, which takes a connection in the lane for an idle one.
func (l *Lane) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		l.lingering.Wait() // ends with the write deadline of the slowest
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// track notes a connection that net/http believes to be new.
func (l *Lane) track(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unserved[c] = true
}

func (l *Lane) untrack(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unserved, c)
}
