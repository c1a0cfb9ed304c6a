// Package lane answers repeated requests inside a connection's Read, while
// net/http waits there for the next request.
//
// net/http owns the connection and parses every request that is new. A handler
// that answered one from memory leaves a [Shortcut] behind, and the lane remembers
// it under the very bytes of the request. The same bytes mean the same request, so
// no second parser is needed:
//
//  1. net/http calls Read between two requests (conn.go);
//  2. the bytes that came are compared, whole, with the requests remembered
//     (table.go), apart from values that vary from one to the next (cut.go);
//  3. the request's Shortcut makes the answer, the lane writes it, and Read
//     goes on waiting;
//  4. whatever is not exactly one whole remembered request goes to net/http
//     unchanged, and shuts the lane until net/http has provably consumed just
//     that (boundary.go).
package lane

import (
	"context"
	"hash/maphash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Options configure a Lane. The times are those of its http.Server.
type Options struct {
	IdleTimeout       time.Duration // how long a connection may wait for the next request; 0: for any time
	ReadHeaderTimeout time.Duration // how long a request's header may take; 0: any time
	WriteTimeout      time.Duration // how long an answer may take to be written; 0: any time

	Registerer prometheus.Registerer // nil: no metrics
}

// A Lane has what the connections of one http.Server have in common. It is
// safe for concurrent use.
type Lane struct {
	o        Options
	seed     maphash.Seed
	table    atomic.Pointer[table]
	draining atomic.Bool
	requests struct{ answered, declined, unknown prometheus.Counter } // declined: known, but not to be answered from memory now

	mu        sync.Mutex
	unserved  map[*Conn]bool // answered here, and new to net/http
	lingering sync.WaitGroup // connections that are closed after the answer in progress
}

// New returns a lane that knows no request yet.
func New(o Options) *Lane {
	l := &Lane{o: o, seed: maphash.MakeSeed(), unserved: map[*Conn]bool{}}
	total := promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_fast_lane_requests_total",
		Help: "Requests looked up in the fast lane, by result: answered, declined (known, but not to be answered from memory now) or unknown.",
	}, []string{"result"})
	l.requests.answered = total.WithLabelValues("answered")
	l.requests.declined = total.WithLabelValues("declined")
	l.requests.unknown = total.WithLabelValues("unknown")
	l.Forget()
	promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_proxy_fast_lane_bytes",
		Help: "Memory taken by the requests that the fast lane remembers.",
	}, func() float64 { return float64(l.Bytes()) })
	return l
}

// Forget empties the lane. Whatever a shortcut was made of may change before
// Forget is called: requests that arrive after it has returned are answered by
// net/http's handler first, and what handlers are about to leave behind that
// began before it is dropped.
func (l *Lane) Forget() { l.table.Store(newTable()) }

// Bytes is what the requests remembered take, or so.
func (l *Lane) Bytes() int { return l.table.Load().bytes() }

// Drain ends answering: net/http gets all requests from now on.
func (l *Lane) Drain() { l.draining.Store(true) }

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
// connections were closed, or ctx ends. It is to be called after
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

// A Shortcut answers one request again and again. Many connections use it at
// the same time.
type Shortcut interface {
	// Answer appends the answer's head to hit.Head and sets hit.Body. It neither
	// waits nor fails: where memory alone does not answer, it returns false and
	// has had no effect.
	Answer(hit *Hit) bool
	// Sent is called once the answer is written, or cannot be.
	Sent(hit *Hit)
}

// varying are the headers whose values make no difference to what is answered,
// and are other ones in every request where an ingress sets them.
var varying = [...]string{"X-Request-Id", "Traceparent"}

// recognisable says of a request whether its bytes may stand for it: the
// connection outlives its answer, and the answer depends on nothing that came
// before or after.
func recognisable(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && !r.Close && r.Header["Upgrade"] == nil && r.Trailer == nil
}
