package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// load asks the cache for an answer that is not at hand in memory. A client that was told of a block by an
// event waits for one of that block, unless that was waited for before.
func (r *Reader) load(ctx context.Context, from *http.Request, rec *web.Record, q *Query, a *Answer) (err error) {
	asking := &asking{Reader: r, q: q, from: from, rec: rec}
	least, awaited := r.Stack.Announced(from)
	if least > a.Asked.MinHeight && least <= a.Asked.Tip && !a.pinned && !a.Asked.Policy.Immutable {
		a.announced = least
		if !awaited {
			if res, ok := asking.getAnnounced(ctx, a.Asked, least); ok {
				a.Result = res
				return nil
			}
		}
	}
	a.Result, err = asking.get(ctx, a.Asked)
	return err
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
	return node.Request{Height: cmp.Or(a.q.Pinned, node.AtTip), Unpinned: !a.q.Kind.pinned, Cost: a.q.Cost, Client: a.name()}
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

// read is a [cache.Origin].
func (a *asking) read(ctx context.Context, before *cache.Entry) (*cache.Entry, error) {
	if a.q.Batch != nil {
		return a.compose(ctx, before)
	}
	q, r := a.q, a.request()
	r.Miss, r.Background, r.Ahead = before == nil, cache.InBackground(ctx), cache.Ahead(ctx)
	answer, err := fetch(ctx, q, r, before)
	if err = silence(answer, err, q.Pinned == 0, before != nil && q.Kind.policy.Load().Outlives(before.Stamp())); err != nil {
		return nil, err
	}
	return q.Origin.Entry(answer, before)
}

// fetch asks the origin, for an audit as that wants it: with what the node has to spare.
func fetch(ctx context.Context, q *Query, r node.Request, before *cache.Entry) (*node.Answer, error) {
	reading := cache.ReadingOf(ctx)
	if reading == nil {
		return q.Origin.Fetch(ctx, r, before)
	}
	if reading.Audit {
		r.Height, r.Only, r.Avoid, r.Audit, r.Ahead = reading.Height, reading.Only, reading.Avoid, true, true
	}
	a, err := q.Origin.Fetch(ctx, r, before)
	if err == nil {
		reading.By = a.Node
		if a.Reason == node.OK || a.Reason == node.NotFound || a.Reason == node.BadInput || a.Reason == node.Refused {
			reading.At = a.Height
		}
	}
	return a, err
}

// silence is what the cache is to be told where a node gave no answer, nil where
// it did. A node that refuses a height of our choosing is behind, which says
// nothing to the client: an entry of any age is better. One that says it failed
// says nothing of what was asked, if an answer that can stand in is at hand.
func silence(a *node.Answer, err error, chosen, atHand bool) error {
	if err == nil && a.Reason == node.Other && atHand {
		return &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node failed", Err: fmt.Errorf("status %d: %s", a.NodeStatus, a.Text)}
	}
	if err == nil && chosen && (a.Reason == node.FutureHeight || a.Reason == node.Pruned) {
		err = &upstream.Error{
			Kind: upstream.Unreachable, Msg: "the chain node is behind the newest block", Err: fmt.Errorf("%w: %s", upstream.ErrBehind, a.Text),
		}
	}
	switch {
	case errors.Is(err, upstream.ErrBehind):
		return fmt.Errorf("%w: %w", cache.ErrBehind, err)
	case errors.Is(err, upstream.ErrYielded):
		return fmt.Errorf("%w: %w", cache.ErrYielded, err)
	}
	return err
}

// NewEntry is an entry of a node's answer, yet without content, for an interface that tells a height of all
// answers: of one that has none, the tip's.
func (r *Reader) NewEntry(a *node.Answer) *cache.Entry {
	e := &cache.Entry{Height: a.Height, ReadAt: time.Now()}
	if e.Height == 0 || a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		e.Height = r.Nodes.Tip().Height // when it was so
	}
	return e
}

// SetContent gives an entry its content: that of the entry before, nil for none, where the node says the
// same. made tells that it is another one.
func SetContent(e, before *cache.Entry, status int, typ string, body []byte, source uint64) (made bool) {
	if before != nil && source != 0 && before.Source == source && before.Status == status && before.Type == typ {
		e.Content = before.Content
		return false
	}
	e.Content = cache.NewContentAfter(before, status, typ, "", body, source)
	return true
}

// Source digests what an entry is made of, for cache.Content, so that the same answer is known again.
func (r *Reader) Source(body []byte) uint64 { return maphash.Bytes(r.seed, body) }

// SourceOf digests the answer of a node. Nothing holds beyond the short life of one by
// which the node says that it failed, or that it does not have the height.
func (r *Reader) SourceOf(a *node.Answer) uint64 {
	switch a.Reason {
	case node.Other, node.Rejected, node.Pruned, node.FutureHeight:
		return 0
	default:
		return r.Source(a.Body)
	}
}

// The index of a node is up to so late behind a block, and what is read of it until then is kept
// for so long.
const (
	indexed   = 500 * time.Millisecond
	unsettled = 50 * time.Millisecond
)

// IndexedExpiry bounds the life of an answer that a node's index feeds, such as a transaction or a
// search, on top of its policy; zero does not. final says that what is found stays as it is.
func IndexedExpiry(found, final bool, now time.Time, tip node.Tip) time.Time {
	switch {
	case found && final:
		return time.Time{}
	case now.Sub(tip.Seen) < indexed:
		return now.Add(unsettled)
	case !found:
		return now.Add(tip.Interval)
	default:
		return time.Time{}
	}
}
