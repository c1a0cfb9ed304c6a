package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

const (
	maxFailures = 5               // in a row open the breaker
	breakerOpen = time.Second     // until a request may try again
	penaltyTime = 5 * time.Second // an endpoint that failed is second choice for so long
	slowCall    = time.Minute     // for a call that waits for a block
)

// An endpoint is one node with all that stands before it.
type endpoint struct {
	configured Endpoint
	life       context.Context //nolint:containedctx // ends when it is removed
	end        context.CancelFunc

	name    string // host:port
	client  *client
	blocks  *heights.Node
	comet   *comet.Client // nil: none
	grpc    *grpcClient   // nil: none
	rest    *server
	calls   *server // of the RPC, nil where there is none
	invokes *server // of gRPC, likewise
	queue   *queue.Slots
	timeout time.Duration
	metrics *metrics

	keys  *pageKeys    // of Story
	sound atomic.Int64 // the height that was probed last after a failure, and could be read

	mu   sync.Mutex
	view view
}

// A view is what is known of an endpoint.
type view struct {
	heights.State

	withoutGRPC bool          // it answers without gRPC, and its errors tell no height
	answered    time.Time     // when the REST server last answered
	latency     time.Duration // of cheap reads, smoothed
	failed      time.Time     // when it last failed in a way that speaks against it
	restErr     error         // what it fails with now
}

// A server is one of a node's: of REST, the RPC or gRPC, each of which may fail by itself.
type server struct {
	breaker  *gobreaker.CircuitBreaker[*Answer]
	exchange func(ctx context.Context, r Request, height int64) (*Answer, error)
	outage   *upstream.Outage
}

func newServer(outage *upstream.Outage, blames func(error) bool, exchange func(context.Context, Request, int64) (*Answer, error)) *server {
	return &server{exchange: exchange, outage: outage, breaker: upstream.NewBreaker[*Answer](upstream.BreakerOptions{
		Outage:   outage,
		Failures: maxFailures, Cooldown: breakerOpen,
		Excluded: func(err error) bool { return !blames(err) },
	})}
}

// maxExcerpt is how many bytes of a node's text an outage repeats.
const maxExcerpt = 200

// note records for the outage how a request went. A failure of the node itself, such as every
// request meets while the node cannot read its state, counts as much as silence; errors that the
// request caused do not.
func (s *server) note(a *Answer, err error) {
	switch {
	case err == nil && (a.Reason != Other || a.Sound):
		s.outage.End()
	case err == nil:
		s.outage.Failed(fmt.Errorf("status %d: %.*s", a.NodeStatus, maxExcerpt, a.Text))
	case upstream.KindOf(err) != 0:
		s.outage.Failed(err)
	}
}

// open says whether the breaker would turn a request away.
func (s *server) open() bool { return s.breaker.State() == gobreaker.StateOpen }

// newEndpoint makes an endpoint of a REST server, and of the others that are not nil.
func newEndpoint(name string, c *client, rpc *comet.Client, g *grpcClient, o Options, m *metrics) *endpoint {
	e := &endpoint{name: name, client: c, comet: rpc, grpc: g, timeout: o.Timeout, metrics: m, keys: newPageKeys()}
	e.life, e.end = context.WithCancel(context.Background())
	e.rest = newServer(upstream.NewOutage(o.Logger, "node "+name), blames, e.read)
	e.blocks = &heights.Node{Name: name, Reader: e, ReportsHeight: func() bool { return c.protocol.tells }, Logger: o.Logger.With("node", name)}
	if rpc != nil {
		e.blocks.Comet, e.calls = rpc, newServer(rpc.Outage, blames, e.call)
	}
	if g != nil {
		e.invokes = newServer(g.outage, blamesGRPC, e.invoke)
	}
	e.queue = queue.New(queue.Options{Limit: o.InFlight, Scans: o.scans, Patience: o.Queue, Headers: e.blocks.Headers})
	return e
}

// serverOf is the server that a request asks, nil where the endpoint has none.
func (e *endpoint) serverOf(r Request) *server {
	switch {
	case r.Invoke != nil:
		return e.invokes
	case r.Call != nil:
		return e.calls
	default:
		return e.rest
	}
}

func (e *endpoint) look() view {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.view
	v.State = e.blocks.Look()
	return v
}

func (e *endpoint) update(change func(*view)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.view)
}

// inTurn asks when the request has its turn. The error is an *upstream.Error, or the context's if
// that ended first.
func (e *endpoint) inTurn(ctx context.Context, r Request, ask func() (*Answer, error)) (*Answer, error) {
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return nil, e.busy(r, err)
	}
	answered := false
	defer func() { turn.End(answered) }()
	answer, err := ask()
	answered = err == nil || upstream.KindOf(err) == upstream.Timeout // the time that it took is the node's
	return answer, err
}

// ask sends the request through the breaker and notes how it went. The error
// is an *upstream.Error, or the context's if that ended first.
func (e *endpoint) ask(ctx context.Context, r Request, height int64) (answer *Answer, err error) {
	s := e.serverOf(r)
	ctx, span := e.startSpan(ctx, r, height)
	defer func() { endSpan(span, answer, err) }()
	start := time.Now()
	try := func() (*Answer, error) {
		attempt, cancel := context.WithTimeout(ctx, e.timeoutOf(r))
		defer cancel()
		answer, err := s.exchange(attempt, r, height)
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err() // the caller's end says nothing about the node
		}
		if err == nil {
			err = answer.checkHeight(r.told(height))
		}
		if err != nil {
			return nil, err
		}
		if r.Height == AtTip && !r.Unpinned && answer.Reason == Pruned {
			return nil, tipRefused(answer)
		}
		return answer, nil
	}
	if r.Cost == Unknown {
		answer, err = try()
		e.metrics.asked(e.name, r, start, answer, err)
		return answer, err
	}
	answer, err = s.breaker.Execute(try)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return nil, unreachable(err) // a trial is under way
	}
	e.metrics.asked(e.name, r, start, answer, err)
	s.note(answer, err)
	if answer != nil {
		answer.Node = e.name
	}
	if r.rest() {
		e.note(err)
		if answer != nil && r.Cost == Cheap {
			e.update(func(v *view) { v.latency += (time.Since(start) - v.latency) / 8 })
		}
	}
	return answer, err
}

// read asks the REST server, and that again where its answer is not clear.
func (e *endpoint) read(ctx context.Context, r Request, height int64) (*Answer, error) {
	get := e.client.get
	if r.PageKey != "" {
		get = e.getPage
	}
	answer, err := get(ctx, r, height)
	switch {
	case err == nil && e.client.protocol.tells:
		return e.disambiguate(ctx, r, r.told(height), answer)
	case err == nil && answer.Reason == Other && r.Cost != Unknown:
		answer.Sound = e.sounds(ctx, r, r.told(height))
	}
	return answer, err
}

// note notes that the REST server has answered, or what speaks against it.
func (e *endpoint) note(err error) {
	if err == nil {
		e.update(func(v *view) { v.answered, v.failed, v.restErr = time.Now(), time.Time{}, nil })
		return
	}
	if refuses(err) {
		e.blocks.Forget() // it is being restarted
	}
	if upstream.KindOf(err) == upstream.Unreachable {
		e.keys.expire()
	}
	e.update(func(v *view) {
		if blames(err) || errors.Is(err, errTipRefused) {
			v.failed = time.Now()
		}
		if upstream.KindOf(err) != 0 {
			v.restErr = err
		}
	})
}

func (e *endpoint) closeIdle() {
	e.client.http.CloseIdleConnections()
	if e.comet != nil {
		e.comet.CloseIdle()
	}
	if e.grpc != nil {
		_ = e.grpc.conn.Close()
	}
}

// startSpan begins the span of a request to a node, of whose address the rest may hold a key.
func (e *endpoint) startSpan(ctx context.Context, r Request, height int64) (context.Context, trace.Span) {
	ctx, span := upstream.StartSpan(ctx, "node.request")
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("server.address", e.name),
			attribute.String("url.path", r.Path),
			attribute.String("tipcache.cost", r.Cost.String()),
			attribute.Int64("tipcache.height", height),
		)
	}
	return ctx, span
}

// endSpan says of a request's span what it came to.
func endSpan(span trace.Span, answer *Answer, err error) {
	if span.IsRecording() && answer != nil {
		span.SetAttributes(
			attribute.Int("http.response.status_code", answer.NodeStatus),
			attribute.String("tipcache.reason", answer.Reason.String()),
			attribute.Int("http.response.body.size", len(answer.Body)),
		)
	}
	upstream.EndSpan(span, err)
}

// Read implements heights.Reader.
func (e *endpoint) Read(ctx context.Context, height int64) (heights.Reading, error) {
	a, err := e.readREST(ctx, Request{Path: e.client.protocol.probe}, height)
	if err != nil {
		return heights.Reading{}, err
	}
	return a.reading(), nil
}

func (e *endpoint) readREST(ctx context.Context, r Request, height int64) (*Answer, error) {
	return e.inTurn(ctx, r, func() (*Answer, error) { return e.ask(ctx, r, height) })
}

// BlockHash implements heights.Reader.
func (e *endpoint) BlockHash(ctx context.Context, height int64) (string, error) {
	base := e.client.protocol.blocks
	if base == "" {
		return "", nil
	}
	r := Request{Path: base + strconv.FormatInt(height+1, 10), Unpinned: true, Cost: Page}
	a, err := e.readREST(ctx, r, 0)
	if err != nil {
		return "", err
	}
	hash, err := base64.StdEncoding.DecodeString(gjson.GetBytes(a.Body, "block.header.last_block_id.hash").Str)
	if err == nil && (a.Reason != OK || len(hash) == 0) {
		err = fmt.Errorf("%s names no block before block %d", r.Path, height+1)
	}
	return fmt.Sprintf("%X", hash), err
}

// reading is what an answer says of its endpoint's blocks.
func (a *Answer) reading() heights.Reading {
	r := heights.Reading{Height: a.Height, Latest: a.Latest}
	switch {
	case a.NodeStatus == http.StatusNotFound: // no handler ran
		r.Outcome = heights.Unknown
	case a.Reason == Pruned:
		r.Outcome = heights.Pruned
	case a.Reason == FutureHeight:
		r.Outcome = heights.Future
	}
	return r
}
