package node

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

const (
	nearby = 10                   // blocks behind: worth waiting for
	near   = 8 * time.Millisecond // endpoints that answer as fast are equally near; so are those within a factor of two

	maxSilences  = 2 // endpoints that may stay silent before the caller is told
	firstPause   = 25 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Fetch asks an endpoint that can answer, and others where one is silent, no longer has the height
// or does not have it yet. A block that the chain has and no endpoint can read so far is waited for
// until ctx ends; AtTip is that for two blocks' time, and then the newest block that an endpoint
// has. An endpoint with a height source is used once Run has asked it for its chain.
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
		moved := f.pool.Moved()
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

// A fetch is one request on its way through the endpoints, on one goroutine.
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

	newest   int64     // that an endpoint has which was passed over because it lags
	lower    int64     // read at this block in place of the tip
	patience time.Time // until then the tip is waited for
}

// choose picks the best endpoint to ask now, and says whether waiting may help where there is none.
// One to be avoided is not picked while another should have the height soon.
func (f *fetch) choose() (best *endpoint, hope bool) {
	tip, height, chain := f.pool.Tip(), f.height(), f.pool.ChainID()
	var least [6]int
	soonest := math.MaxInt // priority of the endpoints that should have the height soon
	form := f.pool.knownForm(f.request.Keys)
	f.resting, f.far, f.newest = false, false, 0
	for _, e := range f.pool.endpoints() {
		v, server := e.look(), e.serverOf(f.request)
		reach := v.reach(height, tip.Interval)
		switch {
		case v.Foreign() || server == nil || f.request.Invoke != nil && !e.grpc.serves(chain) || slices.Contains(f.asked, e) || f.request.Only != "" && f.request.Only != e.name:
		case form && e.keys.last() != f.request.Keys:
			hope = hope || e.keys.last() == UnknownKeys // which is being found out
		case server.open():
			f.resting = true
		case v.Unseen || slices.Contains(f.lagging, e):
			hope = true
		case reach == behind && height <= tip.Height: // beyond the tip, let the node say so
			soon := height-v.Height <= nearby
			hope, f.far, f.newest = hope || soon, f.far || !soon, max(f.newest, v.Height)
			if soon && time.Since(v.failed) >= penaltyTime {
				soonest = min(soonest, e.configured.Priority)
			}
		default:
			if rank := e.rank(v, reach, f.request.Avoid); best == nil || slices.Compare(rank[:], least[:]) < 0 {
				best, least = e, rank
			}
		}
	}
	if best != nil && (best.name == f.request.Avoid && hope || soonest < best.configured.Priority) && time.Now().Before(f.patience) {
		return nil, hope
	}
	return best, hope
}

// reach says how sure it is that an endpoint can answer at a height.
type reach int

const (
	pruned  reach = iota // it may no longer have the height
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

// rank orders endpoints, least first: not to be avoided, without a late failure, by priority, known to have the
// height, where no request waits, the nearest, with the fewest requests.
func (e *endpoint) rank(v view, r reach, avoid string) [6]int {
	failed := 0
	if time.Since(v.failed) < penaltyTime {
		failed = 1
	}
	if e.name == avoid {
		failed += 2
	}
	load := e.queue.Load()
	return [6]int{failed, e.configured.Priority, int(present - r), load.Waiting, bits.Len64(uint64(v.latency / near)), load.InFlight}
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

// descends has a request for the tip read at the newest block of the endpoints that can be asked,
// after a while where the tip should come soon.
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

// ask asks the endpoint in the request's turn, until when the tip has moved on.
func (f *fetch) ask(ctx context.Context, e *endpoint) result {
	r, came := f.request, result{endpoint: e}
	ask := func() (*Answer, error) {
		now := f.pool.Tip()
		came.height = f.height()
		v := e.look()
		if came.height <= now.Height && v.reach(came.height, now.Interval) == behind {
			return nil, upstream.ErrBehind
		}
		answer, err := e.ask(ctx, r, came.height)
		if err == nil && r.told(came.height) == 0 {
			answer.dropHeight(f.pool.Tip().Limit)
		}
		if err == nil && r.Cost != Unknown && (r.rest() || !r.Unpinned) { // what is asked of blocks says nothing of the state
			f.pool.Learn(e.blocks, now.Epoch, answer.reading())
		}
		return answer, err
	}
	if r.slow() {
		came.answer, came.err = ask()
	} else {
		came.answer, came.err = e.inTurn(ctx, r, ask)
	}
	if upstream.KindOf(came.err) == 0 && errors.Is(came.err, context.DeadlineExceeded) {
		came.err = upstream.Silence(origin, came.err) // as the caller is told of it
	}
	return came
}

// concludes takes a result in and says whether it is the last word.
func (f *fetch) concludes(ctx context.Context, r result) bool {
	exists := 0 < r.height && r.height <= f.pool.Tip().Height || f.request.Height == AtTip // the tip may have fallen meanwhile
	switch {
	case f.request.Cost == Unknown && !errors.Is(r.err, upstream.ErrBehind):
		return true
	case errors.Is(r.err, errTipRefused) && time.Now().After(f.patience): // it may have moved on and pruned meanwhile, but not each time
		f.asked, f.silence = append(f.asked, r.endpoint), r.err
		return false
	case errors.Is(r.err, upstream.ErrBehind), r.is(FutureHeight) && exists:
		f.lagging = append(f.lagging, r.endpoint)
		return false
	case r.is(Pruned):
		f.asked, f.pruned = append(f.asked, r.endpoint), r.answer
		return false
	case f.request.writes(): // it may have been carried out
		return true
	case f.places(r) && f.pool.Seek(ctx, r.endpoint.blocks): // now it can be read at a height
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

// silent says whether another endpoint may do better: not with a full queue or too large an answer.
func (r result) silent() bool {
	err, ok := errors.AsType[*upstream.Error](r.err)
	return ok && err.Kind != upstream.Overloaded && !errors.Is(err, errTooLarge)
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
