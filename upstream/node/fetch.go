package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

const (
	maxSilences  = 2 // endpoints that may stay silent before the caller is told
	firstPause   = 25 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

var (
	errClosed     = errors.New("closed")
	errWrongChain = errors.New("serves another chain")
)

// Fetch asks an endpoint that can answer, and others where one is silent, no
// longer has the height or does not have it yet. A block that the chain has and
// no endpoint can read so far is waited for; AtTip is that for two blocks' time,
// and then the newest block that an endpoint has. ctx should have a deadline: the
// wait for another height is bounded by nothing else. An endpoint with a height
// source is used from when Run has asked it for its chain.
//
// The error is always an *upstream.Error, or context.Canceled.
func (p *Pool) Fetch(ctx context.Context, r Request) (*Answer, error) {
	if !p.hasDialect() {
		return nil, unreachable(errUndetermined)
	}
	wait := 2 * p.Tip().Interval
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	f := &fetch{pool: p, request: r, pause: firstPause, patience: time.Now().Add(wait)}
	answer, err := f.run(ctx)
	if err != nil && f.unplaced != nil {
		return f.unplaced, nil
	}
	return answer, err
}

func (f *fetch) run(ctx context.Context) (*Answer, error) {
	for {
		moved := f.pool.chain.Moved()
		e, hope := f.choose()
		if e != nil {
			if result := f.ask(ctx, e); f.concludes(ctx, result) {
				return result.answer, result.err
			}
			continue
		}
		if f.descends(hope) {
			continue
		}
		if !hope || f.silence != nil || f.pruned != nil {
			return f.exhausted()
		}
		if err := f.wait(ctx, moved); err != nil {
			return nil, err
		}
	}
}

// A fetch is one request on its way through the endpoints. It belongs to one
// goroutine.
type fetch struct {
	pool     *Pool
	request  Request
	asked    []*endpoint // need not be asked again
	lagging  []*endpoint // were asked too early, and are asked again after a pause
	pause    time.Duration
	silences int
	silence  error   // the last of them
	pruned   *Answer // what an endpoint said that no longer has the height
	unplaced *Answer // of an unknown block, from when no tip was known
	resting  bool    // an endpoint was passed over because of its breaker
	far      bool    // an endpoint was passed over because it lags too much
	gone     bool    // an endpoint was passed over because it no longer has the height

	newest   int64     // that an endpoint has which was passed over because it lags
	lower    int64     // read at this block in place of the tip
	patience time.Time // until then the tip is waited for
}

// height is what to read at, as of now; 0 is the node's latest.
func (f *fetch) height() int64 {
	if f.request.Height != AtTip {
		return f.request.Height
	}
	switch tip := f.pool.Tip(); {
	case !tip.Known:
		return 0
	case f.lower > 0:
		return min(tip.Height, f.lower)
	default:
		return tip.Height
	}
}

// descends has a request that asks for the tip read at an older block: the newest
// of the endpoints that can be asked, none of which has the tip. It is waited for
// a while where it should come soon.
func (f *fetch) descends(hope bool) bool {
	soon := hope && f.silence == nil && !f.pool.Tip().CatchingUp
	if f.request.Height != AtTip || f.newest == 0 || f.lower > 0 && f.newest >= f.lower || soon && time.Now().Before(f.patience) {
		return false
	}
	f.lower = f.newest
	return true
}

// A result is what came of asking one endpoint.
type result struct {
	endpoint *endpoint
	height   int64
	answer   *Answer
	err      error
}

// writes says whether a request may change something.
func (r Request) writes() bool {
	return r.Post != nil || r.Call != nil && r.Call.Write || r.Invoke != nil && r.Invoke.Write
}

// concludes takes a result in and says whether it is the last word.
func (f *fetch) concludes(ctx context.Context, r result) bool {
	exists := 0 < r.height && r.height <= f.pool.Tip().Height || f.request.Height == AtTip // the tip may have fallen meanwhile
	switch {
	case errors.Is(r.err, upstream.ErrBehind), r.is(FutureHeight) && exists:
		f.lagging = append(f.lagging, r.endpoint)
		return false
	case r.is(Pruned):
		f.asked, f.pruned = append(f.asked, r.endpoint), r.answer
		return false
	case f.request.writes(): // it may have been carried out
		return true
	case f.places(r) && f.pool.chain.Seek(ctx, r.endpoint.blocks): // now it can be read at a height
		f.unplaced = r.answer
		return false
	case r.silent() && ctx.Err() == nil:
		f.asked, f.silence = append(f.asked, r.endpoint), r.err
		f.silences++
		return f.silences == maxSilences
	default:
		return true
	}
}

// places says whether an answer of an unknown block is worth another read.
func (f *fetch) places(r result) bool {
	return f.unplaced == nil && r.answer != nil && r.answer.Height == 0 && r.height == 0 && f.request.Height == AtTip && !f.request.Unpinned
}

func (r result) is(reason Reason) bool { return r.answer != nil && r.answer.Reason == reason }

// silent says whether another endpoint may do better: not where the queue was
// full, and not where the answer is too large.
func (r result) silent() bool {
	err, ok := errors.AsType[*upstream.Error](r.err)
	return ok && err.Kind != upstream.Overloaded && !errors.Is(err, errTooLarge)
}

// exhausted is what to say when no endpoint is left. That a height is pruned is
// true only if each endpoint that may have it was asked.
func (f *fetch) exhausted() (*Answer, error) {
	switch {
	case f.silence != nil:
		return nil, f.silence
	case (f.pruned != nil || f.gone) && !f.resting:
		return f.refusal(), nil
	case f.far && !f.resting:
		return nil, &upstream.Error{
			Kind: upstream.Overloaded, Msg: origin + " is too far behind its chain",
			Err: upstream.ErrBehind, RetryAfter: max(nearby*f.pool.Tip().Interval, time.Second),
		}
	default:
		return nil, f.pool.noEndpoint()
	}
}

// refusal says that no endpoint keeps the height, and below which block nothing can be asked
// for. Where the blocks begin that can be is not known: a node does not say how far it
// prunes, and is not asked for what no client wants. Refusals teach the bound.
func (f *fetch) refusal() *Answer {
	height, newest := f.height(), f.pool.Tip().Height
	text := fmt.Sprintf("failed to load state at height %d: it is kept no longer; no block before %d can be asked for, and the first that can may be later (latest height: %d)",
		height, f.pool.lowest(), newest)
	a := Answer{
		NodeStatus: http.StatusInternalServerError, Type: "application/json", Height: height,
		Body: f.pool.protocol.refusal(text),
	}
	if f.pruned != nil {
		a = *f.pruned // has the node's own words
	}
	a.Status, a.Reason, a.Text, a.Latest = Pruned.Status(), Pruned, text, newest
	return &a
}

// wait is over when something moved, or after a pause that doubles each time.
func (f *fetch) wait(ctx context.Context, moved <-chan struct{}) error {
	select {
	case <-moved:
	case <-time.After(f.pause):
		f.pause = min(2*f.pause, longestPause)
	case <-ctx.Done():
		return f.pool.late(ctx, f.height())
	case <-f.pool.life.Done():
		return unreachable(errClosed)
	}
	f.lagging = nil
	return nil
}

// ask waits for a turn at the endpoint and asks it.
func (f *fetch) ask(ctx context.Context, e *endpoint) result {
	r := f.request
	if r.Call != nil && r.Call.Slow {
		return f.exchange(ctx, e).told()
	}
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return result{endpoint: e, err: e.busy(err)}
	}
	answered := false
	defer func() { turn.End(answered) }()
	came := f.exchange(ctx, e)
	answered = tellsOfLoad(came.err)
	return came.told()
}

// exchange asks the endpoint. The tip is looked up now: it has moved on since the request
// began to wait.
func (f *fetch) exchange(ctx context.Context, e *endpoint) result {
	r, now, height := f.request, f.pool.Tip(), f.height()
	v := e.look()
	if height <= now.Height && v.reach(height, now.Interval) == behind {
		return result{endpoint: e, height: height, err: upstream.ErrBehind}
	}
	answer, err := e.ask(ctx, r, height)
	if err == nil && (r.rest() || !r.Unpinned) { // what is asked of blocks says nothing of the state
		f.pool.chain.Learn(e.blocks, now.Epoch, answer.reading())
	}
	return result{endpoint: e, height: height, answer: answer, err: err}
}

// told is the result as the caller is told of it.
func (r result) told() result {
	if errors.Is(r.err, context.DeadlineExceeded) {
		r.err = upstream.Silence(origin, r.err)
	}
	return r
}

// tellsOfLoad tells whether the time that a request took is the node's: it answered, or
// did not in time.
func tellsOfLoad(err error) bool {
	silent, ok := errors.AsType[*upstream.Error](err)
	return err == nil || ok && silent.Kind == upstream.Timeout
}

// busy is the error for a request that got no turn.
func (e *endpoint) busy(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, upstream.ErrYielded) {
		return &upstream.Error{Kind: upstream.Overloaded, Msg: origin + " is busy", Err: err}
	}
	e.metrics.shed.WithLabelValues(e.name).Inc()
	return &upstream.Error{
		Kind: upstream.Overloaded, Msg: origin + " is busy", Err: err, RetryAfter: time.Second,
	}
}
