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
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

const (
	slowCall  = time.Minute // timeout of a call that waits for a block
	smoothing = 8           // a new sample counts 1/smoothing in the mean latency
)

// An endpoint is one node with its clients, breakers and queue.
type endpoint struct {
	configured Endpoint
	life       context.Context //nolint:containedctx // ends when the endpoint is removed
	end        context.CancelFunc

	added    time.Time
	name     string // host:port
	client   *client
	blocks   *heights.Node
	comet    *comet.Client // nil without an RPC server
	grpc     *grpcClient   // nil without a gRPC server
	queue    *queue.Slots
	timeout  time.Duration
	metrics  *metrics
	nextKeys *nextKeys // of the pool

	restServer *server
	rpcServer  *server // nil without an RPC server
	grpcServer *server // nil without a gRPC server

	sending    atomic.Int64  // requests in flight, including those that do not queue
	worksAt    atomic.Int64  // last height that a probe could read after a failure
	testing    chan struct{} // holds a value while a caller tests the form of page keys
	testFailed time.Time     // when such a test last failed; only used while testing

	mu   sync.Mutex
	view view

	before atomic.Pointer[endpoint] // with the previous configuration, serves requests until this endpoint answers them; may be nil
}

// A view is the known state of an endpoint.
type view struct {
	heights.State

	withoutGRPC  bool          // the REST server does not use gRPC, so its errors have no height
	sendsHeaders bool          // SDK only: the REST server's successful responses name a height or gRPC's content type
	answered     time.Time     // when the REST server last responded
	latency      time.Duration // of cheap reads, smoothed
	restErr      error         // current error of the REST server
	keys         pageKeys      // Story only
}

// serverOf returns the server for a request, or nil if the endpoint does not have it.
func (e *endpoint) serverOf(r Request) *server {
	switch {
	case r.Invoke != nil:
		return e.grpcServer
	case r.Call != nil:
		return e.rpcServer
	default:
		return e.restServer
	}
}

func (e *endpoint) snapshot() view {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.view
	v.State = e.blocks.State()
	return v
}

// newest returns the height that the endpoint is expected to read, at most the tip, or 0 if the tip is unknown.
func (e *endpoint) newest(tip Tip) int64 {
	if v := e.snapshot(); v.Current(tip.Interval) {
		return min(tip.Height, v.Height)
	}
	return tip.Height
}

func (e *endpoint) update(change func(*view)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.view)
}

// inTurn waits for the request's turn and then calls send. The error is an *upstream.Error, or ctx.Err().
func (e *endpoint) inTurn(ctx context.Context, r Request, send func() (*Answer, error)) (*Answer, error) {
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return nil, e.busy(r, err)
	}
	measured := false // the duration shows the node's speed
	defer func() { turn.End(measured) }()
	answer, err := send()
	measured = err == nil || upstream.KindOf(err) == upstream.Timeout
	return answer, err
}

// send sends a request, through the breaker unless its cost is Unknown, and records its outcome. The error is an
// *upstream.Error, or ctx.Err().
func (e *endpoint) send(ctx context.Context, r Request, height int64) (answer *Answer, err error) {
	e.sending.Add(1)
	defer e.sending.Add(-1)
	s := e.serverOf(r)
	ctx, span := e.startSpan(ctx, r, height)
	defer func() { endSpan(span, answer, err) }()
	start := time.Now()
	try := func() (*Answer, error) {
		attempt := upstream.WithLazyDeadline(ctx, time.Now().Add(e.timeoutOf(r)))
		defer attempt.Release()
		answer, err := e.exchange(attempt, r, height)
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err() // the caller's cancellation says nothing about the node
		}
		if err == nil {
			err = answer.checkHeight(r.sentHeight(height))
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
		e.metrics.countRequest(e.name, r, start, answer, err)
		return answer, err
	}
	answer, err = s.breaker.Execute(try)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return nil, unreachable(err)
	}
	e.metrics.countRequest(e.name, r, start, answer, err)
	s.recordOutcome(answer, err)
	if answer != nil {
		answer.Cached = e.client.isParent.Load()
	}
	if r.rest() {
		e.recordREST(err)
		if answer != nil && r.Cost == Cheap {
			e.update(func(v *view) { v.latency += (time.Since(start) - v.latency) / smoothing })
		}
	}
	return answer, err
}

// exchange sends a request to the server of its kind, and returns the answer.
func (e *endpoint) exchange(ctx context.Context, r Request, height int64) (*Answer, error) {
	switch {
	case r.Invoke != nil:
		return e.invoke(ctx, r, height)
	case r.Call != nil:
		return e.call(ctx, r, height)
	default:
		return e.read(ctx, r, height)
	}
}

// read sends a request to the REST server, and further reads if the answer is ambiguous.
func (e *endpoint) read(ctx context.Context, r Request, height int64) (*Answer, error) {
	get := e.client.get
	if r.PageKey != "" || r.Cost == Page && e.client.protocol.keyProbe != "" {
		get = e.getPage
	}
	answer, err := get(ctx, r, height)
	switch {
	case err == nil && e.client.protocol.hasHeights:
		return e.disambiguate(ctx, r, r.sentHeight(height), answer)
	case err == nil && answer.Reason == Other && r.Cost != Unknown:
		answer.NodeWorks = e.works(ctx, r, r.sentHeight(height))
	}
	return answer, err
}

// recordREST records that the REST server has responded, or its failure.
func (e *endpoint) recordREST(err error) {
	if err == nil {
		e.update(func(v *view) { v.answered, v.restErr = time.Now(), nil })
		return
	}
	if isDialError(err) {
		e.blocks.ForgetLowest() // the node may be restarting
	}
	e.update(func(v *view) {
		if upstream.KindOf(err) == upstream.Unreachable { // the node may be restarted with another release
			v.keys.tested, v.sendsHeaders = time.Time{}, false
		}
		if upstream.KindOf(err) != 0 && !errors.Is(err, account.ErrFull) {
			v.restErr = err
		}
	})
}

func (e *endpoint) close() {
	e.client.http.CloseIdleConnections()
	if e.comet != nil {
		e.comet.CloseIdle()
	}
	if e.grpc != nil {
		e.grpc.close()
	}
}

// startSpan starts the span of a request to a node. It omits the path of the node's base URL and the query, which may contain a
// key.
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

// Read sends the probe of the dialect, for [heights.Node].Reader.
func (e *endpoint) Read(ctx context.Context, height int64) (heights.Reading, error) {
	a, err := e.readREST(ctx, Request{Path: e.client.protocol.probe}, height)
	if err != nil {
		return heights.Reading{}, err
	}
	return a.reading(), nil
}

// readREST sends a request of the pool. A failure of the node is an error.
func (e *endpoint) readREST(ctx context.Context, r Request, height int64) (*Answer, error) {
	a, err := e.inTurn(ctx, r, func() (*Answer, error) { return e.send(ctx, r, height) })
	e.restServer.blameTimeout(err)
	if err == nil && a.Reason == Other {
		err = fmt.Errorf("status %d: %s", a.NodeStatus, a.Text)
	}
	return a, err
}

// BlockHash reads the hash of a block from the next block, for [heights.Node].Reader.
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
	header := gjson.GetManyBytes(a.Body, "block.header.height", "block.header.last_block_id.hash")
	hash, err := base64.StdEncoding.DecodeString(header[1].Str)
	if err != nil || a.Reason != OK || len(hash) == 0 || header[0].Int() != height+1 {
		return "", fmt.Errorf("%s: %w", r.Path, heights.ErrNoHash)
	}
	return fmt.Sprintf("%X", hash), nil
}

// ChainID reads the chain's id from the node's description, for [heights.Node].Reader.
func (e *endpoint) ChainID(ctx context.Context) (string, error) {
	path := e.client.protocol.nodeInfo
	if path == "" {
		return "", nil
	}
	a, err := e.readREST(ctx, Request{Path: path, Unpinned: true, Cost: Page}, 0)
	switch {
	case upstream.KindOf(err) == upstream.BadAnswer: // a server in front of the node refuses the path
		return "", nil
	case err != nil:
		return "", err
	}
	return gjson.GetBytes(a.Body, "default_node_info.network").Str, nil
}

// reading returns what an answer reveals about its endpoint's blocks.
func (a *Answer) reading() heights.Reading {
	r := heights.Reading{Height: a.Height, Latest: a.Latest}
	switch {
	case a.NodeStatus == http.StatusNotFound, // no handler ran
		a.Reason == Other && !a.NodeWorks, a.Reason == BadInput, a.Reason == Ambiguous:
		r.Outcome = heights.Unknown
	case a.Reason == Pruned:
		r.Outcome = heights.Pruned
	case a.Reason == FutureHeight:
		r.Outcome = heights.Future
	}
	return r
}
