package node

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

const (
	maxWaitLag  = 10                   // an endpoint that is more blocks behind is not waited for
	latencyUnit = 8 * time.Millisecond // shorter latencies rank equally, and so do those from 8 to 16 ms, from 16 to 32 ms and so on
	penaltyTime = 5 * time.Second      // how long a server ranks behind the others after a failure
)

// wouldChoose returns the endpoint that Fetch would choose for a request, or nil. If the endpoints that work are behind the tip, it
// is one of them, although Fetch may wait for the tip first.
func (p *Pool) wouldChoose(r Request) *endpoint {
	f := &fetch{pool: p, request: r}
	tip, chainID, _ := p.Look()
	e, hope := f.choose(tip, chainID)
	if e == nil && f.tryLowerHeight(hope) {
		e, _ = f.choose(tip, chainID)
	}
	return e
}

// choose returns the best endpoint for the request, or nil if the request has to wait or cannot be sent. hope
// reports whether an endpoint may become usable soon, so that waiting makes sense. Until the deadline, choose waits for an endpoint
// with a better priority that lags only a little: it returns nil. It sets broken, far and newest.
func (f *fetch) choose(tip Tip, chainID string) (best *endpoint, hope bool) {
	height := f.height(tip)
	var bestRank [6]int
	soonest := math.MaxInt // priority of the endpoints that should have the height soon
	formIsKnown := f.pool.knownForm(f.request.Keys)
	f.broken, f.far, f.newest = false, false, 0
	for _, e := range f.pool.endpoints() {
		e = e.orBefore(f.request)
		v := e.snapshot()
		if v.Foreign() {
			continue
		}
		reach, serves := v.reach(height, tip), e.serves(f.request, chainID)
		switch {
		case serves == otherChain || slices.Contains(f.done, e) || e.serverOf(f.request) == nil:
		case formIsKnown && v.keys.form != f.request.Keys:
			hope = hope || v.keys.form == UnknownKeys // its form is being tested
		case f.pruned != nil && !f.awaits(e): // it does not delay the refusal
		case e.serverOf(f.request).isOpen(), f.request.Invoke != nil && e.grpc.lag.hides(f.request.sentHeight(height)):
			f.broken = true
		case serves == unknownChain:
			f.broken = f.broken || e.grpc.maySoonBeKnown(f.pool.options.patience)
			hope = hope || e.grpc.isReconnecting(f.pool.options.reconnect)
		case v.Unseen:
			hope, f.broken = true, true
		case slices.Contains(f.lagging, e):
			hope = true
		case reach == behind && height <= tip.Height: // a height above the tip is sent, so that the node refuses it
			soon := height-v.Height <= maxWaitLag
			hope, f.far, f.newest = hope || soon, f.far || !soon, max(f.newest, v.Height)
			if soon && !e.serverOf(f.request).failedLately() {
				soonest = min(soonest, e.configured.Priority)
			}
		default:
			if rank := e.rank(v, reach, f.request); best == nil || slices.Compare(rank[:], bestRank[:]) < 0 {
				best, bestRank = e, rank
			}
		}
	}
	if best != nil && time.Now().Before(f.deadline) && soonest < best.configured.Priority {
		return nil, hope
	}
	return best, hope
}

// awaits reports whether an endpoint may soon answer the request: the server for it works, or the endpoint was added or its
// REST server responded recently.
func (f *fetch) awaits(e *endpoint) bool {
	works := !f.request.rest() && !e.serverOf(f.request).outage.Failing()
	return works || min(time.Since(e.added), time.Since(e.snapshot().answered)) < f.pool.options.patience
}

// serves returns whether the server for a request serves a chain. That of the REST and RPC servers is the node's.
func (e *endpoint) serves(r Request, chain string) identity {
	if r.Invoke == nil || e.grpc == nil {
		return ownChain
	}
	switch named := e.grpc.chainID(); {
	case named == nil:
		return unknownChain
	case *named == chain:
		return ownChain
	default:
		return otherChain
	}
}

// orBefore returns the endpoint to send a request to: e, or the one with the previous configuration until e answers.
func (e *endpoint) orBefore(r Request) *endpoint {
	if before := e.before.Load(); before != nil && !e.answers(r) && before.serverOf(r) != nil {
		return before
	}
	return e
}

// answers reports whether the server for a request has answered.
func (e *endpoint) answers(r Request) bool {
	v := e.snapshot()
	switch {
	case r.Invoke != nil:
		return e.grpc != nil && e.grpc.chainID() != nil
	case r.Call != nil:
		return e.comet != nil && !v.Unseen && !v.CometDown
	default:
		return !v.Unseen && v.answering()
	}
}

// reach is how likely it is that an endpoint can answer at a height.
type reach int

const (
	pruned  reach = iota // it may have pruned the height
	behind               // it does not have the height yet
	unsure               // its current height is unknown
	newest               // the height is its newest block, and an earlier one of the chain: its answer would be unsettled
	present              // it has the height, or any height will do
)

func (v *view) reach(height int64, tip Tip) reach {
	switch {
	case 0 < height && height < v.Lowest:
		return pruned
	case height == v.Height && height < tip.Height:
		return newest
	case height <= v.Height || height == 0:
		return present
	case !v.Current(tip.Interval):
		return unsure
	default:
		return behind
	}
}

// rank orders endpoints. The lowest rank is best. The criteria are, in order: recent failures, priority,
// reach, waiting requests, latency, requests in flight.
func (e *endpoint) rank(v view, reached reach, r Request) [6]int {
	failed := 0
	if e.serverOf(r).failedLately() || r.Call != nil && v.CometDown || r.Invoke != nil && e.grpc.lag.hides(math.MaxInt64) {
		failed = 1
	}
	load := e.queue.Load()
	return [6]int{failed, e.configured.Priority, int(present - reached), load.Waiting, bits.Len64(uint64(v.latency / latencyUnit)), load.InFlight}
}
