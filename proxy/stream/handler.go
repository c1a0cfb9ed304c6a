// Package stream serves server-sent events: the answer of a chain path, and the new answer whenever a block changes
// it. It also serves polls, which wait for one change.
//
// The way of a stream:
//
//  1. handler.go counts the client's open streams and polls, and refuses too many. It reads the options that EventSource
//     cannot send as headers from the query (options.go) and determines the feeds: the request's path, or the paths given
//     to /live.
//  2. topic.go follows a feed for all clients that stream it. It reads the answer once per block through the cache,
//     charges the read to one of its subscribers, and notifies all of them about a change. Its memory is part of the
//     cache's budget (memory.go).
//  3. client.go writes changes to one client, charging its limits for each event. A client that is slow or over its
//     limits receives the newest answer next, never a backlog.
//  4. event.go renders events and gzip.go writes them, compressed if the client accepts gzip. An event is rendered and
//     compressed once for all clients. resume.go defines the ids that let a stream of several paths resume.
//
// With stream.blocks=true answers are grouped by block: see blockevents.go.
//
// A poll (poll.go) follows a topic in the same way until the answer differs from the one its client has, and is then
// answered like a GET. A request that waits for an item (wait.go) follows it until a node finds the item. Streams and
// polls share follower.go.
//
// EventSource never reconnects after a status other than 200. A stream that cannot be served now, because of a limit or
// because the server drains, is therefore a 200 that says when to reconnect and ends.
package stream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// heights is the part of *node.Pool that streams use.
type heights interface {
	// Tip returns the newest known block.
	Tip() node.Tip
	session.History
	// Executed returns the lowest known height whose state includes the execution chain's block with this number, 0 if the
	// state at height does not, and the newest block of the execution chain that the state at height includes.
	Executed(ctx context.Context, client string, height, number int64) (since, newest int64, err error)
	// ChainID returns the chain's name, or "" if unknown.
	ChainID() string
	// Moved returns a channel that is closed when the tip moves. Call it before reading the tip.
	Moved() <-chan struct{}
}

// Settings are the operator's settings of streams, with their keys in the section http.
type Settings struct {
	Max       int `yaml:"max_streams" must:"positive" doc:"Maximum number of event streams and waiting polls. Each also holds a connection. Further streams end at once, with the time to reconnect. Further polls get 503 with Retry-After."`
	PerClient int `yaml:"client_streams" must:"positive" doc:"Maximum number of event streams and waiting polls per client address (per /64 for IPv6) and per key. Trusted proxies and loopback are exempt. A key with a rate of its own counts as 16 clients."`
}

// DefaultSettings returns the settings of an operator who sets none.
func DefaultSettings() Settings { return Settings{Max: 5_000, PerClient: 100} }

// Options configure a Handler. Heights and Budget are required.
type Options struct {
	Settings
	Heights   heights
	Budget    *account.Account // memory that streams take from the cache
	Patience  time.Duration    // how long a block event waits for its answers, see [cache.Patience]
	KeepAlive time.Duration    // between two comments on an idle stream; default 15 s
	LongPoll  time.Duration    // how long a poll waits for a change; default 20 s
	Write     time.Duration    // maximum time to send an event. Deadlines are set seldom: an event may have half of it, or over HTTP/2 up to 2 * KeepAlive more. Default 10 s
}

// WithDefaults replaces zero values by their defaults.
func (o Options) WithDefaults() Options {
	o.Max = cmp.Or(o.Max, DefaultSettings().Max)
	o.PerClient = cmp.Or(o.PerClient, DefaultSettings().PerClient)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.LongPoll = cmp.Or(o.LongPoll, 20*time.Second)
	o.Write = cmp.Or(o.Write, 10*time.Second)
	return o
}

// Handler serves streams and polls. Its goroutines end with them.
type Handler struct {
	o       Options
	stack   *web.Stack
	topics  topics
	drained atomic.Bool
	reloads atomic.Int64 // number of reloads of keys and limits

	mu      sync.Mutex
	clients map[string]int // streams and polls by client address and by key
	count   int
}

// New returns a Handler with the defaults filled in.
func New(o Options, stack *web.Stack) *Handler {
	h := &Handler{o: o.WithDefaults(), stack: stack, clients: map[string]int{}}
	h.topics = topics{heights: o.Heights, log: stack.Logger(), memory: o.Budget.Events(), byKey: map[string]*topic{}}
	o.Budget.AddHolders(account.Events, h.topics.holders)
	stack.Gauge("streams", "Open event streams and waiting polls.", func() float64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return float64(h.count)
	})
	return h
}

// Drain ends all streams and refuses new ones, advising clients to reconnect: another replica may serve them.
func (h *Handler) Drain() {
	h.drained.Store(true)
	h.topics.notifyAll()
}

// Readmit ends the streams of clients that the current keys and limits refuse, advising them to reconnect, which
// shows them the refusal. The others continue under the current limits.
func (h *Handler) Readmit() {
	h.reloads.Add(1)
	h.topics.notifyAll()
}

// EventType is the media type of event streams.
const EventType = "text/event-stream"

// Route replaces rt by a route that streams. feeds returns the sources of a request. [OptionsAsHeaders] must
// have been applied to its requests.
func (h *Handler) Route(rt web.Route, feeds func(*web.Request) ([]Source, error)) web.Route {
	rt.Name, rt.Render = "stream", h.renderer(rt.Render)
	access := rt.Access
	rt.Serve = func(r *web.Request) error { return h.serve(r, access, feeds) }
	return rt
}

// Source is a feed with the name that the client uses for it.
type Source struct {
	Path      string // as given to /live; "" for a stream of a single path
	Operation string // for access rules; "" for a stream of a single path
	web.Feed
}

func (h *Handler) serve(r *web.Request, access string, feeds func(*web.Request) ([]Source, error)) error {
	cl := &client{w: r.Writer, control: http.NewResponseController(r.Writer), out: output{to: r.Writer, gzip: respond.WantsGzip(r.Header["Accept-Encoding"])}}
	operations := []string{access}
	cl.init(h, &r.Record.Client, func() (*web.Limiter, error) { return h.stack.Limiter(r, operations...) })
	cl.writeTime = h.o.Write
	if r.ProtoMajor == 2 {
		// net/http resets an HTTP/2 stream at its write deadline, even if nothing is being written. At least half of
		// writeTime is left after each event, which must be longer than the time until the next comment.
		cl.writeTime += 2 * h.o.KeepAlive
	}
	if err := checkOptions(r); err != nil {
		return err
	}
	sources, err := feeds(r)
	if err != nil {
		return err
	}
	for i := range sources {
		if o := sources[i].Operation; o != "" {
			if err := h.stack.AdmitOperation(r, o); err != nil {
				return err
			}
			operations = append(operations, o)
		}
	}
	leave, err := h.enter(&r.Record.Client, errFull)
	if err != nil {
		return err
	}
	defer leave()
	if r.Method == http.MethodHead {
		setHeaders(r.ResponseHeader, cl.out.gzip)
		r.Writer.WriteHeader(http.StatusOK)
		return nil
	}
	discardBody(r)
	return cl.serve(r, sources)
}

// discardBody reads the rest of the body of a request that will take long. Over HTTP/2 its bytes would use up the window of
// the connection, and stop the bodies of other requests.
func discardBody(r *web.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // until the server's ReadTimeout at the latest
}

// refusal returns the failure for a topic that has no memory: errClientFull if the client has used its share, and full otherwise.
func refusal(err error, full *failure.Failure) error {
	if errors.Is(err, account.ErrShare) {
		return errClientFull
	}
	return full
}

var errFull = &failure.Failure{Status: http.StatusServiceUnavailable, Public: "too many streams"}

// enter counts a stream or poll, until leave is called, against the limit of each of the client's shares. A client that may be
// many clients has no shares. enter returns full if the maximum of all clients is reached.
func (h *Handler) enter(c *limits.Client, full error) (leave func(), err error) {
	if h.drained.Load() {
		return nil, errDrained
	}
	shares := c.Shares()
	if h.stack.Admission.IsMany(c) {
		shares = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.count >= h.o.Max:
		return nil, full
	case slices.ContainsFunc(shares, func(id string) bool { return h.clients[id] >= h.o.PerClient }):
		return nil, errClientFull
	}
	h.add(shares, 1)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.add(shares, -1)
	}, nil
}

// add changes the counts of a client by n. The caller must hold mu.
func (h *Handler) add(shares []string, n int) {
	h.count += n
	for _, id := range shares {
		if h.clients[id] += n; h.clients[id] == 0 {
			delete(h.clients, id)
		}
	}
}

func setHeaders(h http.Header, gzip bool) {
	h.Set("Content-Type", EventType)
	h.Set("Cache-Control", "no-store, no-transform") // compressing proxies would delay events
	h.Set("Vary", "Accept, Accept-Encoding")
	if gzip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("X-Accel-Buffering", "no") // disables buffering in nginx and similar proxies
}

// renderer renders client errors as render does. A temporary failure becomes a stream that ends at once and says when to
// reconnect.
func (h *Handler) renderer(render web.Renderer) web.Renderer {
	return func(r *web.Request, header http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		if f.Status < http.StatusInternalServerError && f.Status != http.StatusTooManyRequests {
			return render(r, header, f)
		}
		setHeaders(header, false)
		return http.StatusOK, EventType, []byte(retryAfter(f.RetryAfter))
	}
}

// retryAfter returns the event that tells EventSource when to reconnect: after the given time or a second, whichever is longer,
// plus up to four seconds so that clients do not reconnect all at once.
func retryAfter(least time.Duration) string {
	wait := max(least, time.Second) + rand.N(4*time.Second)
	return "retry: " + strconv.FormatInt(wait.Milliseconds(), 10) + "\n\n"
}
