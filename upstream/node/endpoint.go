package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

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
	name    string // host:port
	client  *client
	blocks  *heights.Node
	comet   *comet.Client // nil: none
	grpc    *grpcClient   // nil: none
	queue   *queue.Slots
	breaker *gobreaker.CircuitBreaker[*Answer] // of the REST server
	calls   *gobreaker.CircuitBreaker[*Answer] // of the RPC
	timeout time.Duration
	metrics *metrics

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

func newEndpoint(name string, c *client, rpc *comet.Client, o Options, m *metrics) *endpoint {
	e := &endpoint{
		name: name, client: c, comet: rpc, timeout: o.Timeout, metrics: m,
	}
	e.blocks = &heights.Node{Name: name, Reader: e, Tells: func() bool { return c.protocol.tells }, Logger: o.Logger.With("node", name)}
	if rpc != nil {
		e.blocks.Comet, e.calls = headerSource{rpc}, newBreaker("RPC of node "+name, o, blames)
	}
	e.queue = queue.New(queue.Options{Limit: o.InFlight, Scans: o.Scans, Patience: o.Queue, Headers: e.blocks.Headers})
	e.breaker = newBreaker("node "+name, o, blames)
	return e
}

// A headerSource is a CometBFT client as package heights asks it.
type headerSource struct{ *comet.Client }

// Subscribe implements heights.Comet.
func (s headerSource) Subscribe(ctx context.Context) (heights.Headers, error) {
	return s.Client.Subscribe(ctx)
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

// reach says how sure it is that an endpoint can answer at a height.
type reach int

const (
	pruned  reach = iota // it no longer has the height
	behind               // it does not have the height yet
	unsure               // nothing current is known of its height
	present              // it has it, or any will do
)

func (v *view) reach(height int64, interval time.Duration) reach {
	switch {
	case 0 < height && height < v.Lowest:
		return pruned
	case height <= v.Height || height == 0:
		return present
	case !v.Current(interval):
		return unsure
	default:
		return behind
	}
}

// ask sends the request through the breaker and notes how it went. The error
// is an *upstream.Error, or the context's if that ended first.
func (e *endpoint) ask(ctx context.Context, r Request, height int64) (answer *Answer, err error) {
	ctx, span := e.startSpan(ctx, r, height)
	defer func() { endSpan(span, answer, err) }()
	start := time.Now()
	answer, err = e.breakerOf(r).Execute(func() (*Answer, error) {
		attempt, cancel := context.WithTimeout(ctx, e.timeLimit(r))
		defer cancel()
		answer, err := e.exchange(attempt, r, height)
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err() // the caller's end says nothing about the node
		}
		return answer, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return nil, unreachable(err) // a trial is under way
	}
	e.metrics.asked(e.name, r, start, answer, err)
	if answer != nil {
		answer.Node = e.name
	}
	if !r.rest() {
		return answer, err
	}
	e.note(answer, err)
	if answer != nil && r.Cost == Cheap {
		e.update(func(v *view) { v.latency += (time.Since(start) - v.latency) / 8 })
	}
	return answer, err
}

// exchange asks the server that the request is for, and that again where its answer is not clear.
func (e *endpoint) exchange(ctx context.Context, r Request, height int64) (*Answer, error) {
	switch {
	case r.Invoke != nil:
		return e.invoke(ctx, r, height)
	case r.Call != nil:
		return e.call(ctx, r, height)
	}
	answer, err := e.client.get(ctx, r, height)
	switch {
	case err == nil && e.client.protocol.tells:
		return e.disambiguate(ctx, r, r.told(height), answer)
	case err == nil && answer.Reason == Other:
		answer.Sound = e.sounds(ctx, r, r.told(height))
	}
	return answer, err
}

// unreachable is the error where no endpoint could be asked.
func unreachable(err error) *upstream.Error {
	return &upstream.Error{
		Kind: upstream.Unreachable, Msg: origin + " cannot be reached", Err: err, RetryAfter: breakerOpen,
	}
}

func (e *endpoint) note(answer *Answer, err error) {
	if refuses(err) {
		e.blocks.Forget() // it is being restarted
	}
	e.update(func(v *view) {
		if answer != nil {
			v.answered, v.failed, v.restErr = time.Now(), time.Time{}, nil
			return
		}
		if blames(err) {
			v.failed = time.Now()
		}
		if _, silent := errors.AsType[*upstream.Error](err); silent {
			v.restErr = err
		}
	})
}

// open says whether the breaker of the REST server would turn a request away.
func (e *endpoint) open() bool { return e.breaker.State() == gobreaker.StateOpen }

// timeLimit is how long an answer may take. One that waits for a block has the time of
// its caller.
func (e *endpoint) timeLimit(r Request) time.Duration {
	if r.Call != nil && r.Call.Slow {
		return slowCall
	}
	return e.timeout
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
