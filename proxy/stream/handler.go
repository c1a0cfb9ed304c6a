// Package stream answers with server-sent events: an answer of the chain's
// interface now, and again whenever a block changes it; or, to polls, once there is
// another one.
//
// A stream goes, top to bottom:
//
//  1. handler.go admits it within its limits, takes the options that EventSource
//     cannot send as headers from the query (options.go), and names the feeds it
//     follows: the request's own, or those of /live;
//  2. topic.go follows a feed for all clients that stream it: it reads the answer once a
//     block through the cache, paid for by one of them, and tells its subscribers when it
//     has changed. What it holds is in the budget of the cache (bodies.go);
//  3. client.go writes what is new to one client, which pays for each event by its
//     limits. A client that is slow, or cannot pay, gets the newest answer next, never a
//     backlog;
//  4. event.go renders events, and gzip.go writes them, in gzip to those
//     that take it; an event is rendered and encoded once for all clients. resume.go
//     has the ids by which a stream of several answers goes on where it broke.
//
// A client that asks for blocks gets whole ones: see blockevents.go.
//
// A poll (poll.go) follows a topic in the same way until there is another answer than its
// client has, and is answered as a GET is then. Followers of both kinds (follower.go) pay
// alike.
//
// EventSource gives up for good on any status but 200. So a stream that cannot be
// served now, because of a limit or while the server drains, is a 200 that says
// when to try again, and ends.
package stream

import (
	"cmp"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// heights is what streams need of the chain's nodes; *node.Pool has it.
type heights interface {
	// Tip is the newest block known.
	Tip() node.Tip
	session.History
	// ChainID names the chain, "" while it is not known.
	ChainID() string
	// Moved is closed when the tip moves. Take it before looking.
	Moved() <-chan struct{}
}

// Options configure a Handler. Heights and Budget are required.
type Options struct {
	Heights   heights
	Budget    *account.Account // of the memory that streams take from the cache
	Max       int              // streams at once; default 5000
	PerClient int              // of these, by one client address (IPv6: /64), and by one key; default 100
	Patience  time.Duration    // how long a block waits for answers at it, as [cache.Patience] says
	KeepAlive time.Duration    // between comments on an idle stream; default 15 s
	LongPoll  time.Duration    // how long a poll waits for another answer; default 20 s
	Write     time.Duration    // longest time to send an event, at least half of which it has; default 10 s
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Max = cmp.Or(o.Max, 5_000)
	o.PerClient = cmp.Or(o.PerClient, 100)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.LongPoll = cmp.Or(o.LongPoll, 20*time.Second)
	o.Write = cmp.Or(o.Write, 10*time.Second)
	return o
}

// A Handler streams. Its goroutines end with the streams they serve.
type Handler struct {
	o       Options
	stack   *web.Stack
	topics  topics
	drained atomic.Bool
	reloads atomic.Int64 // of keys and limits

	mu      sync.Mutex
	clients map[string]int // streams by client address, and by key
	count   int
}

// New fills in the defaults.
func New(o Options, stack *web.Stack) *Handler {
	h := &Handler{o: o.WithDefaults(), stack: stack, clients: map[string]int{}}
	h.topics = topics{heights: o.Heights, log: stack.Logger(), byKey: map[string]*topic{}, bodies: bodies{budget: o.Budget, seed: maphash.MakeSeed(), byHash: map[uint64]*body{}}}
	stack.Gauge("streams", "Open event streams.", func() float64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return float64(h.count)
	})
	return h
}

// Drain ends all streams, and the streams that come from now on, with the advice to
// try again: another replica may serve them.
func (h *Handler) Drain() {
	h.drained.Store(true)
	h.topics.notifyAll()
}

// Readmit ends the streams of clients that would not be admitted any more, by the keys
// in force, with the advice to try again, which tells them. The others go on by the
// limits in force.
func (h *Handler) Readmit() {
	h.reloads.Add(1)
	h.topics.notifyAll()
}

// EventType is the media type of streams.
const EventType = "text/event-stream"

// Route returns the route that streams what feeds finds, in place of rt. Its requests carry their options
// as headers, by [OptionsAsHeaders].
func (h *Handler) Route(rt web.Route, feeds func(r *http.Request) ([]Source, error)) web.Route {
	rt.Name, rt.Render = "stream", h.renderer(rt.Render)
	access := rt.Access
	rt.Serve = func(c *gin.Context, rec *record.Record) error { return h.serve(c, rec, access, feeds) }
	return rt
}

// A Source is a feed under the name that the client has for it.
type Source struct {
	Path      string // as asked of /live; "" for a stream of one path
	Operation string // for access rules; "" for a stream of one path
	web.Feed
}

func (h *Handler) serve(c *gin.Context, rec *record.Record, access string, feeds func(r *http.Request) ([]Source, error)) error {
	cl := &client{w: c.Writer, out: output{to: c.Writer, gzip: respond.WantsGzip(c.Request.Header["Accept-Encoding"])}}
	operations := []string{access}
	cl.init(h, func() (*web.Payer, error) { return h.stack.Payer(c.Request, rec, operations...) })
	sources, err := feeds(c.Request)
	if err != nil {
		return err
	}
	for i := range sources {
		if o := sources[i].Operation; o != "" {
			operations = append(operations, o)
		}
	}
	leave, ok := h.enter(rec.Client.Network(), rec.Client.Name())
	if !ok {
		return errFull
	}
	defer leave()
	if c.Request.Method == http.MethodHead {
		setHeaders(c.Writer.Header(), cl.out.gzip)
		c.Writer.WriteHeader(http.StatusOK)
		c.Writer.WriteHeaderNow()
		return nil
	}
	return cl.serve(c.Request, rec, sources)
}

var errFull = &failure.Failure{Status: http.StatusServiceUnavailable, Public: "too many streams"}

// enter takes a place among the streams, if there is one for the client's network and for
// its name, which is its key's if it has one.
func (h *Handler) enter(network, name string) (leave func(), ok bool) {
	if h.drained.Load() {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= h.o.Max || max(h.clients[network], h.clients[name]) >= h.o.PerClient {
		return nil, false
	}
	h.add(network, name, 1)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.add(network, name, -1)
	}, true
}

// add counts a stream of a client, once where its network is its name. Call with mu held.
func (h *Handler) add(network, name string, n int) {
	h.count += n
	for _, who := range slices.Compact([]string{network, name}) {
		if h.clients[who] += n; h.clients[who] == 0 {
			delete(h.clients, who)
		}
	}
}

func setHeaders(h http.Header, gzip bool) {
	h.Set("Content-Type", EventType)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Accept-Encoding")
	if gzip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("X-Accel-Buffering", "no") // for nginx and proxies that follow it
}

// renderer writes the client's own mistakes as the interface does. What may pass
// is a stream that ends at once and says when to try again.
func (h *Handler) renderer(render web.Renderer) web.Renderer {
	return func(r *http.Request, header http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		if f.Status < http.StatusInternalServerError && f.Status != http.StatusTooManyRequests {
			return render(r, header, f)
		}
		setHeaders(header, false)
		return http.StatusOK, EventType, []byte(retryAfter(f.RetryAfter))
	}
}

// retryAfter tells EventSource when to connect again, spread over some seconds, so
// that not all clients come at once.
func retryAfter(least time.Duration) string {
	wait := max(least, time.Second) + rand.N(4*time.Second)
	return "retry: " + strconv.FormatInt(wait.Milliseconds(), 10) + "\n\n"
}
