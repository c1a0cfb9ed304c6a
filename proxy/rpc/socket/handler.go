// Package socket serves the WebSocket of a node's RPC: subscriptions to events, and all methods that POST has. Answers
// are sent in the order of the calls. Queued calls are read ahead concurrently, up to the first one that sends a
// transaction or changes subscriptions.
//
// A connection has one goroutine that reads, one that answers while calls are queued, one for each call that is read
// ahead, and one that writes events while there are any. Messages and closing equal the node's, except that the limits
// are our own, that a canceled subscription is always reported, and that a stopping server closes with 1012.
package socket

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/net/http/httpguts"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/events"
)

// Methods answers calls.
type Methods interface {
	// Call counts, limits and answers a call.
	Call(r *http.Request, method string, params json.RawMessage) Answer
	// IsExclusive reports whether calls of a method wait for the earlier ones and delay the later ones.
	IsExclusive(method string) bool
	// Subscription counts and limits a call about subscriptions, or a message of no method (""), which do answers,
	// returning the size of the answer. If the call is refused, do is not called and refusal is the member of its answer.
	Subscription(r *http.Request, method string, do func() (size int)) (refusal []byte)
}

// Answer is the answer to a call.
type Answer struct {
	Member []byte // result or error, with its name; nil if the call lacks parameters that the method needs
	Height int64  // block of an answer at the newest block; else 0

	Again   func() Answer // repeats the read without counting another call; nil for a refused call
	Release func()        // releases the memory of Member; nil if the budget is used up, and Member is the refusal
}

// DefaultSubscriptions is the default limit per connection. Nodes have five.
const DefaultSubscriptions = 20

// Options configure a Handler. The zero value of a field means its default.
type Options struct {
	Methods       Methods               // required
	Stack         *web.Stack            // required
	Feed          *events.Feed          // required
	Keyed         bool                  // connections require an API key
	Subscriptions int                   // maximum per connection; default DefaultSubscriptions
	Message       int64                 // maximum message of a client, in bytes; default 4 MiB
	Ping          time.Duration         // between two pings; default 27 s
	Pong          time.Duration         // maximum time until the response to a ping; default 3 s
	Write         time.Duration         // maximum time to write a message; default 10 s
	Read          time.Duration         // maximum time from the beginning of a client's message to its end; default 10 s
	Late          time.Duration         // how long a drain reads calls that clients have sent behind the queued ones; default 1 s
	Registerer    prometheus.Registerer // nil disables metrics
}

func (o Options) withDefaults() Options {
	o.Subscriptions = cmp.Or(o.Subscriptions, DefaultSubscriptions)
	o.Message = cmp.Or(o.Message, 4<<20)
	o.Ping = cmp.Or(o.Ping, 27*time.Second)
	o.Pong = cmp.Or(o.Pong, 3*time.Second)
	o.Write = cmp.Or(o.Write, 10*time.Second)
	o.Read = cmp.Or(o.Read, 10*time.Second)
	o.Late = cmp.Or(o.Late, time.Second)
	return o
}

// Handler serves connections.
type Handler struct {
	o Options

	mu       sync.Mutex
	open     map[*conn]struct{}
	draining bool
	ended    sync.WaitGroup
}

// New returns a handler.
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

// Serve starts to serve a connection, which outlives the call: the memory that the server holds during a request would be
// most of a connection's. It answers an invalid handshake as nodes do. An error is a refusal without a response.
func (d *Handler) Serve(w http.ResponseWriter, r *http.Request) error {
	refuse := func(status int) error {
		http.Error(w, http.StatusText(status), status)
		return nil
	}
	switch {
	case !isUpgrade(r):
		w.Header().Set("Sec-Websocket-Version", "13")
		return refuse(http.StatusBadRequest)
	case !d.o.Stack.Connects(r):
		return refuse(http.StatusForbidden)
	}
	c := newConn(d, r)
	if !d.enter(c) {
		return &failure.Failure{Status: http.StatusServiceUnavailable, Public: "the server stops", Expected: true}
	}
	var err error
	if c.release, err = d.o.Stack.OnRevoked(r, d.o.Keyed, c.eventMethod, c.revoke); err != nil {
		d.leave(c)
		return err
	}
	recorder := &hijackRecorder{ResponseWriter: w}
	ws, err := websocket.Accept(recorder, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the origin was checked
	if err != nil {
		d.leave(c)
		return nil //nolint:nilerr // Accept has responded
	}
	go func() { // Drain waits for it
		defer d.leave(c)
		c.serve(ws, recorder.conn)
	}()
	return nil
}

func isUpgrade(r *http.Request) bool {
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
	c.end() // so that Drain does not wait for it
	if c.release != nil {
		c.release()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
	d.ended.Done()
}

// Drain accepts no more connections, answers all queued calls, and closes each connection with 1012, so that
// clients reconnect to another server. It returns when all connections have ended, or cuts them when ctx ends.
func (d *Handler) Drain(ctx context.Context) {
	var drains sync.WaitGroup
	d.mu.Lock()
	d.draining = true
	for c := range d.open {
		drains.Go(func() { c.drain(ctx, d.o.Late, websocket.StatusServiceRestart, "the server stops") })
	}
	d.mu.Unlock()
	drains.Wait()
	d.ended.Wait()
}
