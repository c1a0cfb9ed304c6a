// Package lane answers requests from memory inside a connection's Read, while net/http waits there for the next request.
//
// net/http owns the connection, and its handler serves each new request. A handler that responded from memory registers a
// [Handler] for the request's key; for a request with a body, only when the same request is seen again.
//
//  1. net/http calls Read between two requests (conn.go).
//  2. Package heads parses the request strictly, so that net/http would parse it to the same result. The key is the
//     method, the target, the few headers that select a response, and the digest of a body (heads/key.go).
//  3. The key's Handler (table.go) renders the response, and the lane writes it (hit.go) and continues with the next
//     request.
//  4. All other bytes go to net/http unchanged. The lane stays closed until net/http has consumed exactly these
//     (boundary.go).
//
// replay.go has the handlers of requests that the stack of package web served. multiplexed.go serves HTTP/2, rpc.go the
// RPC listener, whose responses repeat the id of a call, and grpc.go the gRPC listener.
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

// Options configure a Lane. The timeouts must equal those of its http.Server; 0 means no limit.
type Options struct {
	IdleTimeout       time.Duration // maximum wait for the next request
	ReadHeaderTimeout time.Duration // maximum time to read a request's header
	WriteTimeout      time.Duration // maximum time to write a response

	Memory     *account.Account      // budget for the table; nil means no limit
	Registerer prometheus.Registerer // nil registers no metrics
}

// A Lane is the state shared by the connections of one http.Server. It is safe for concurrent use.
type Lane struct {
	o        Options
	stack    *web.Stack
	table    atomic.Pointer[table]
	draining atomic.Bool
	partials atomic.Int64                                             // partial requests held
	recent   recentKeys                                               // POSTs and calls that are not in the table
	requests struct{ answered, declined, unknown prometheus.Counter } // declined: known, but memory has no response

	unseen   sync.Map       // keys are the *Conn that the lane has served, but that are new to net/http
	closings sync.WaitGroup // connections that are closed after the response in progress
}

var _ web.Lane = (*Lane)(nil)

// New returns an empty lane.
func New(o Options) *Lane {
	l := &Lane{o: o}
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

// Forget empties the lane. Call it after changing anything that responses depend on. Handlers of requests that arrived
// earlier can no longer be registered.
func (l *Lane) Forget() { l.table.Swap(newTable(l)).release() }

// Bytes returns the approximate size of the table, in bytes.
func (l *Lane) Bytes() int { return int(l.table.Load().known.WeightedSize()) }

// Drain makes net/http serve all further requests.
func (l *Lane) Drain() { l.draining.Store(true) }

// Wrap implements [web.Lane].
func (l *Lane) Wrap(client *conn.Conn, below net.Conn) conn.LaneConn {
	c := l.NewConn(below)
	c.client = client
	return c
}

// SlotFor implements [web.Lane].
func (l *Lane) SlotFor(client *conn.Conn, r *http.Request) record.LaneSlot {
	if l.draining.Load() {
		return nil
	}
	if r.ProtoMajor > 1 {
		return l.table.Load()
	}
	if c, ok := client.LaneConn().(*Conn); ok && c.WantsHandler() {
		return c
	}
	return nil
}

// CloseNew closes idle connections that only the lane has served. To net/http they are new, and http.Server.Shutdown
// waits five seconds for the first request on such a connection. Call it with Shutdown.
func (l *Lane) CloseNew() {
	for c := range l.unseen.Range {
		_ = c.(*Conn).Close() //nolint:forcetypeassert // it has no other keys
	}
}

// Wait waits for responses that were in progress when their connections were closed, until ctx ends. Call it after
// http.Server.Shutdown, which closes connections in the lane as if they were idle.
func (l *Lane) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		l.closings.Wait() // write deadlines bound it
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
