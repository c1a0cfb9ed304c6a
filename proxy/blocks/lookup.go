package blocks

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An Answer is what a query comes to.
type Answer struct {
	cache.Result
	Asked cache.Query // what the cache was asked
	Tip   node.Tip    // by which it is an answer

	pinned    bool  // the block was chosen, by the client or by its walk
	batch     bool  // it is made of others
	announced int64 // the block that the client was told of by an event, 0 for none
}

// Answer answers a query from the cache, at the block that AwaitBlock finds. Where memory
// answers it and the same bytes come again, the fast lane may answer them by itself.
func (r *Reader) Answer(ctx context.Context, from *http.Request, rec *web.Record, q *Query) (Answer, error) {
	tip, err := r.AwaitBlock(ctx, from, rec, q)
	if err != nil {
		return Answer{}, err
	}
	if q.Walk.Height == 0 && rec.Repeatable() {
		rec.Repeat(r.Replayer(q, web.Repeats))
	}
	return r.Lookup(ctx, from, rec, q, tip)
}

// Lookup asks the cache, by a tip: for a later page of a walk at the block of the walk,
// where that can still be read. The fast lane has no part in it: what is made of the answer
// is the caller's.
func (r *Reader) Lookup(ctx context.Context, from *http.Request, rec *web.Record, q *Query, tip node.Tip) (Answer, error) {
	if q.Walk.Height > 0 {
		if at, ok := r.snapshot(ctx, q, tip); ok {
			a, err := r.get(ctx, from, rec, at, tip)
			if err != nil || !outOfReach(a.Result) {
				rec.Pinned = true
				return a, err
			}
		}
	}
	a, err := r.get(ctx, from, rec, q, tip)
	if err != nil {
		return a, err
	}
	fixed := q.Kind.Class.Fixed() && a.Entry.Status == http.StatusOK
	if h := a.Entry.Height; 0 < h && h < q.Min && !fixed { // of a node that catches up
		return a, r.late(q.Min, nil)
	}
	return a, nil
}

func (r *Reader) get(ctx context.Context, from *http.Request, rec *web.Record, q *Query, tip node.Tip) (a Answer, err error) {
	a.Asked, a.Tip, a.pinned, a.batch = r.asked(q, tip), tip, q.Pinned > 0, q.Batch != nil
	narrow(&a.Asked, rec)
	if res, ok := r.cache.Fresh(a.Asked, time.Now(), nil); ok {
		a.Result = res
		return a, nil
	}
	asking := &asking{Reader: r, q: q, from: from, rec: rec}
	least, awaited := r.Stack.Announced(from)
	if least <= a.Asked.MinHeight || least > a.Asked.Tip || a.pinned || a.Asked.Policy.Immutable {
		a.Result, err = asking.get(ctx, a.Asked)
		return a, err
	}
	if a.announced = least; !awaited {
		if res, ok := asking.getAnnounced(ctx, a.Asked, least); ok {
			a.Result = res
			return a, nil
		}
	}
	a.Result, err = asking.get(ctx, a.Asked)
	return a, err
}

// maxAnnounced is how long a client that was told of a block by an event waits to read it, where it
// could be given an older answer.
const maxAnnounced = 5 * time.Second

// getAnnounced asks the cache for an answer that is no older than the block that the client was told
// of by an event. It is not ok where no node has answered in time: then the answer may be older, and
// says so, and that block is waited for no more.
func (a *asking) getAnnounced(ctx context.Context, asked cache.Query, least int64) (res cache.Result, ok bool) {
	from := a.from // which get may forget
	limit, cancel := context.WithTimeout(ctx, maxAnnounced)
	defer cancel()
	asked.MinHeight = least
	res, err := a.get(limit, asked)
	if err != nil && ctx.Err() == nil {
		a.Stack.AwaitedAnnounced(from, least)
	}
	return res, err == nil
}

// asked is what the cache is asked.
func (r *Reader) asked(q *Query, tip node.Tip) cache.Query {
	policy := *q.Kind.policy.Load()
	if q.Pinned > 0 {
		policy = r.classes.Load().Pinned
	}
	asked := cache.Query{Key: q.key(), LatencyClass: int(q.Cost), Policy: policy, MinHeight: q.Min, MaxHeight: tip.Limit, Audit: q.Kind.Class.Pinned(), Ahead: q.Pinned == 0 && q.Cost != node.Scan}
	if tip.Known {
		asked.Tip, asked.Interval = tip.Height, tip.Interval
	}
	if q.Pinned > 0 || policy.Immutable {
		asked.MinHeight = 0 // what is fixed was seen, however long ago
	}
	if q.Batch != nil { // its parts are shared, and audited
		asked.Policy.Keep, asked.Audit = 0, false
	}
	return asked
}

// snapshot is the query as one about the block of its walk. It is not ok where there is
// no such block to be read: the request names another one, or the chain has been set
// back since the page before.
func (r *Reader) snapshot(ctx context.Context, q *Query, tip node.Tip) (at *Query, ok bool) {
	height := q.Walk.Height
	if height == 0 || q.Pinned > 0 || q.Min > height || q.Walk.Epoch != uint64(tip.Epoch) {
		return nil, false
	}
	if tip.Known && height > tip.Height && !r.awaitReplica(ctx, height, tip) {
		return nil, false
	}
	return q.at(height), true
}

// awaitReplica waits for a block that another replica has seen already, two
// blocks' time at the most.
func (r *Reader) awaitReplica(ctx context.Context, height int64, tip node.Tip) bool {
	until := time.Now().Add(min(2*tip.Interval, r.o.MinHeightWait))
	if t, ok := ctx.Value(togetherKey{}).(*time.Time); ok {
		if t.IsZero() {
			*t = until
		}
		until = *t
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return r.Nodes.WaitHeight(ctx, height) == nil
}

type togetherKey struct{}

// Together is a request of which several queries are asked, one after another: they wait
// for the blocks of their walks as long as one of them would.
func Together(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), togetherKey{}, new(time.Time)))
}

// outOfReach tells of an answer to a pinned read that no node has the block.
func outOfReach(res cache.Result) bool { return res.Entry.Height == 0 }

// An asking asks a query's origin, which is what a miss comes to, on behalf of a client.
// What is read ahead block by block is asked for by that of one request, so that nothing
// of the request is held once its client is known.
type asking struct {
	*Reader
	q *Query

	mu     sync.Mutex
	from   *http.Request // nil: client is known
	rec    *web.Record
	client string
}

// get asks the cache.
func (a *asking) get(ctx context.Context, asked cache.Query) (cache.Result, error) {
	asked.Queue = a
	return a.cache.Get(ctx, asked, a.read)
}

// Expected implements [cache.Queue].
func (a *asking) Expected(background bool) time.Duration {
	r := a.request()
	r.Background = background
	return a.Nodes.Expected(r)
}

// request is what the origin is told.
func (a *asking) request() node.Request {
	return node.Request{Height: cmp.Or(a.q.Pinned, node.AtTip), Unpinned: !a.q.Kind.Class.Pinned(), Cost: a.q.Cost, Client: a.name()}
}

// name is the client's.
func (a *asking) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != nil {
		a.client = a.Stack.Client(a.from, a.rec)
		a.from, a.rec = nil, nil
	}
	return a.client
}
