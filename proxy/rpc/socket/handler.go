// Package socket is the WebSocket of a node's RPC: subscriptions to events, and
// all methods as by POST, one answer after the other in the order asked. Calls that wait for
// theirs are read at the same time, up to one that sends a transaction or changes subscriptions.
//
// A connection has a goroutine that reads, one that answers while there are calls and one for
// each other that is read meanwhile, and one that writes events while there are some. What is sent and when it is closed is as by the
// node, but for the limits, which are our own, and for the end: a client whose events do
// not find room is always told so, and a server that stops says 1012.
package socket

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/net/http/httpguts"

	"github.com/tipcache/tipcache/upstream/events"
)

// Methods answers calls.
type Methods interface {
	// Call answers a call.
	Call(r *http.Request, method string, params json.RawMessage) Answer
	// Alone says whether calls of a method wait for the answers before theirs, and have the
	// calls behind wait.
	Alone(method string) bool
	// Subscription counts and limits a call about subscriptions, which do answers and returns the size of the
	// answer. A call that is refused is not done, and refusal is the member of its answer.
	Subscription(r *http.Request, method string, do func() (size int)) (refusal []byte)
	// ReadMessage reads a message of at most largest bytes into reserved memory, until release is called. Without
	// memory the error is ErrMemory.
	ReadMessage(r *http.Request, message io.Reader, largest int64) (text []byte, release func(), err error)
	// HoldAhead reserves memory for a call that is read ahead, until release is called. It returns nil if there is none.
	HoldAhead() (release func())
	// HoldResponse reserves memory for an answer, until release is called. If there is none, refusal is the member of
	// the answer.
	HoldResponse(r *http.Request, n int) (release func(), refusal []byte)
	// OnRevoked calls end once the client that opened a connection may no longer call any method, or the one that method
	// returns, if any, until release is called. end must not block. It returns an error if the client may not call now.
	OnRevoked(r *http.Request, method func() string, end func(reason string)) (release func(), err error)
}

// ErrMemory is the error for a message that there is no memory for.
var ErrMemory = errors.New("no memory for the message")

// An Answer is that to a call.
type Answer struct {
	Member []byte // result or error, with its name; nil where the call has no parameters and the method needs some
	Height int64  // of the block that the answer is of, where that is the newest; else 0

	Again func() Answer // reads the answer once more, which does not count as a call; nil for a call that was refused
}

// DefaultSubscriptions of a connection, where a node has five.
const DefaultSubscriptions = 20

// Options configure a Handler. The zero value of a field means its default.
type Options struct {
	Methods       Methods                      // required
	Feed          *events.Feed                 // required
	Subscriptions int                          // of a connection; DefaultSubscriptions
	Message       int64                        // largest message of a client, in bytes; 4 MiB
	Ping          time.Duration                // between two pings; 27 s
	Pong          time.Duration                // for the answer to one; 3 s
	Write         time.Duration                // for a message to be taken; 10 s
	Origin        func(*http.Request) bool     // whether a page of that origin may connect; nil: any may
	Registerer    prometheus.Registerer        // nil: no metrics
	Listen        func(*http.Request) Listener // notes who is told of blocks; nil: nothing has to know
}

// A Listener is a client that is told of blocks over a connection.
type Listener interface {
	// Announce notes the block of an event before that is sent.
	Announce(height int64)
	Close()
}

func (o Options) withDefaults() Options {
	o.Subscriptions = cmp.Or(o.Subscriptions, DefaultSubscriptions)
	o.Message = cmp.Or(o.Message, 4<<20)
	o.Ping = cmp.Or(o.Ping, 27*time.Second)
	o.Pong = cmp.Or(o.Pong, 3*time.Second)
	o.Write = cmp.Or(o.Write, 10*time.Second)
	return o
}

// A Handler serves connections.
type Handler struct {
	o Options

	mu       sync.Mutex
	open     map[*conn]struct{}
	draining bool
	ended    sync.WaitGroup
}

// New makes a handler.
func New(o Options) *Handler {
	d := &Handler{o: o.withDefaults(), open: map[*conn]struct{}{}}
	promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_rpc_sockets", Help: "Open WebSocket connections.",
	}, func() float64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return float64(len(d.open))
	})
	return d
}

// ServeHTTP begins to serve a connection, which outlives the call: what the server
// holds for a request would be most of what a connection takes.
func (d *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int) { http.Error(w, http.StatusText(status), status) }
	switch {
	case !upgrades(r):
		w.Header().Set("Sec-Websocket-Version", "13")
		refuse(http.StatusBadRequest)
		return
	case d.o.Origin != nil && !d.o.Origin(r):
		refuse(http.StatusForbidden)
		return
	}
	c := newConn(d, r)
	if !d.enter(c) {
		w.Header().Set("Retry-After", "1")
		refuse(http.StatusServiceUnavailable)
		return
	}
	var err error
	if c.release, err = d.o.Methods.OnRevoked(r, c.following, c.revoke); err != nil {
		d.leave(c)
		refuse(http.StatusUnauthorized)
		return
	}
	taken := &taker{ResponseWriter: w}
	ws, err := websocket.Accept(taken, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the origin was checked
	if err != nil {
		c.end()    // or Drain would wait for it
		d.leave(c) // the client has its answer
		return
	}
	go func() { // Drain waits for it
		defer d.leave(c)
		c.serve(ws, taken.conn)
	}()
}

// upgrades says whether a request asks for a WebSocket.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
		httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket")
}

func (d *Handler) enter(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return false
	}
	d.open[c] = struct{}{}
	d.ended.Add(1)
	return true
}

func (d *Handler) leave(c *conn) {
	if c.release != nil {
		c.release()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
	d.ended.Done()
}

// Drain takes no more connections, lets the calls be answered that were made, and closes
// each connection with 1012: the client may come back to another server. It returns when
// all have ended, or cuts them when ctx ends.
func (d *Handler) Drain(ctx context.Context) {
	var drains sync.WaitGroup
	d.mu.Lock()
	d.draining = true
	for c := range d.open {
		drains.Go(func() { c.drain(ctx, websocket.StatusServiceRestart, "the server stops") })
	}
	d.mu.Unlock()
	drains.Wait()
	d.ended.Wait()
}
