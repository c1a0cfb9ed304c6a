package chain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// varyOn are the request headers that choose between answers of a URL: heights,
// and Accept, which may ask for a stream.
const varyOn = web.HeightHeader + ", " + web.MinHeightHeader + ", " + web.MinEVMHeader + ", Accept"

// A Reader reads the chain by the block, in whatever dialect its nodes speak: it says at
// which block a request is answered, and what is told of an answer.
type Reader struct {
	nodes Nodes
	cache Cache
	stack *web.Stack
	auth  bool          // a key is required
	wait  time.Duration // for a block that a request must see

	patience time.Duration // for one that its client has seen

	waiters *limits.Waiters
}

// NewReader makes a reader. Of the options it reads Nodes, Auth, MinHeightWait and Patience.
func NewReader(o Options, stack *web.Stack, c Cache) *Reader {
	o = o.WithDefaults()
	return &Reader{nodes: o.Nodes, cache: c, stack: stack, auth: o.Auth, wait: o.MinHeightWait, patience: o.Patience, waiters: stack.NewWaiters()}
}

// Admit lets those pass who may ask.
func (r *Reader) Admit(c *gin.Context, rec *web.Record) error {
	if !r.auth {
		return nil
	}
	return r.stack.AdmitKey(c, rec)
}

// Settle waits for the block that a request must see, 0 for none, and returns the tip to
// answer by.
func (r *Reader) Settle(ctx context.Context, from *http.Request, rec *web.Record, least int64) (node.Tip, error) {
	tip := r.nodes.Tip()
	if least <= tip.Height { // a block that was seen stays seen, whatever is down now
		return tip, nil
	}
	leave, err := r.enter(from, rec, tip, web.MinHeightHeader)
	if err != nil {
		return tip, err
	}
	defer leave()
	if err := r.await(ctx, least); err != nil {
		return tip, err
	}
	return r.nodes.Tip(), nil
}

// Follow waits a little for the newest block that the client has seen on its
// connection, of which another replica may have told, and returns the tip to answer by.
func (r *Reader) Follow(ctx context.Context, rec *web.Record, tip node.Tip) node.Tip {
	seen := rec.Seen(tip.Epoch)
	if !tip.Known || seen <= tip.Height {
		return tip
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	_ = r.nodes.WaitHeight(ctx, seen) // in vain: the answer says that it is an older one
	return r.nodes.Tip()
}

// Waits tells whether a request would wait for a block: for the one that it must see, 0
// for none, or, unless it is pinned to one, for the newest that its client has seen.
func (r *Reader) Waits(rec *web.Record, pinned, least int64, tip node.Tip) bool {
	return least > tip.Height || pinned == 0 && tip.Known && rec.Seen(tip.Epoch) > tip.Height
}

// QueryFor is what the cache is asked for a key: one slot for the newest state, replaced
// block by block, and one for each block that is asked for by its height.
func (r *Reader) QueryFor(key string, cost node.Cost, policy cache.Policy, pinned, least int64, tip node.Tip) cache.Query {
	q := cache.Query{Key: key, Kind: int(cost), Policy: policy, MinHeight: least, MaxHeight: tip.Limit, Ahead: pinned == 0 && cost != node.Scan}
	if tip.Known {
		q.Tip = tip.Height
	}
	if pinned > 0 || policy.Immutable {
		q.MinHeight = 0 // what is fixed was seen, however long ago
	}
	return q
}

// Newest asks the cache for an answer that is not stale, for those who follow one.
func (r *Reader) Newest(ctx context.Context, q cache.Query, origin cache.Origin) (cache.Result, error) {
	ctx, cancel := context.WithDeadline(ctx, r.stack.Deadline(time.Now()))
	defer cancel()
	q.Policy.StaleBlocks, q.Policy.Stale = q.Policy.FreshBlocks, q.Policy.Fresh
	return r.cache.Get(ctx, q, origin)
}

// mark calls an answer stale that is of a block before one that the client has seen on
// its connection, by more than its class allows, and notes what the client sees. An
// answer that could not be waited for is the new measure.
func (r *Reader) mark(rec *web.Record, res *cache.Result, query *cache.Query, tip node.Tip) {
	height := res.Entry.Height
	if rec.Pinned || !tip.Known || height == 0 || query.Policy.Fixes(res.Entry) {
		return
	}
	switch seen := rec.Seen(tip.Epoch); {
	case height >= seen:
		rec.Show(tip.Epoch, height)
	case seen-height > query.Policy.FreshBlocks && (res.Outcome == cache.Hit || res.Outcome == cache.Miss):
		res.Outcome = cache.StaleHit
		rec.Show(tip.Epoch, height)
	}
}

// enter takes a place among those who wait for a block, which they name in a header.
func (r *Reader) enter(from *http.Request, rec *web.Record, tip node.Tip, header string) (leave func(), err error) {
	if !tip.Known {
		return nil, &web.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true,
			Public: "the newest block is not known at present, so " + header + " cannot be waited for"}
	}
	return r.waiters.Enter(from, rec.Tenant, max(tip.Interval, time.Second))
}

// await waits for a block, within bounds.
func (r *Reader) await(ctx context.Context, height int64) error {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	err := r.nodes.WaitHeight(ctx, height)
	if errors.Is(err, context.DeadlineExceeded) {
		return r.Late(height, err)
	}
	return err
}

// Late is the failure of a request that must see a block that does not come.
func (r *Reader) Late(height int64, err error) error {
	tip := r.nodes.Tip()
	return &web.Failure{Status: http.StatusGatewayTimeout, RetryAfter: max(tip.Interval, time.Second), Err: err, Expected: true,
		Public: "block " + strconv.FormatInt(height, 10) + " has not come; the newest is " + strconv.FormatInt(tip.Height, 10)}
}

// Silence is what the cache is to be told where a node gave no answer, nil where
// it did. A node that refuses a height of our choosing is behind, which says
// nothing to the client: an entry of any age is better. One that says it failed
// says nothing of what prev was about, if that is at hand.
func Silence(a *node.Answer, err error, chosen bool, prev *cache.Entry) error {
	if err == nil && a.Reason == node.Other && prev != nil && prev.Expires.IsZero() {
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

// Answer is what a result comes to.
func (r *Reader) Answer(rec *web.Record, res cache.Result, query *cache.Query, tip node.Tip, now time.Time) web.Answer {
	r.mark(rec, &res, query, tip)
	rec.Result(res)
	if res.Entry.Height > tip.Height && res.Entry.Status == http.StatusOK {
		r.nodes.Raise(res.Entry.Height) // another replica has read there
	}
	return web.Answer{
		Result: res, Key: query.Key, Policy: query.Policy, Now: now, Until: freshUntil(res.Entry, query.Policy, tip, now),
		CatchingUp: tip.CatchingUp && !query.Policy.Fixes(res.Entry),
		Seconds:    !tip.Known && !query.Policy.Fixes(res.Entry), Private: r.auth, Vary: varyOn,
	}
}

// freshUntil is when an answer ceases to be fresh. In blocks that is an
// estimate: when the block that ends it is expected. It is zero where freshness
// is measured in seconds, because no tip is known.
func freshUntil(e *cache.Entry, p cache.Policy, tip node.Tip, now time.Time) time.Time {
	if !tip.Known {
		return time.Time{}
	}
	if e.Height == 0 || tip.CatchingUp { // of a time when no tip was known, so of any block; or not of the newest
		return now
	}
	since := min(now.Sub(tip.Seen), tip.Interval)
	return now.Add(time.Duration(e.Height+p.FreshBlocks+1-tip.Height)*tip.Interval - since)
}

// Policies are the classes in force, and by them the policy of every row of a
// table. They are replaced as a whole.
type Policies struct {
	Classes
	Rows []cache.Policy
}

// Of is the policy of a row, for requests that are pinned to a block or, at 0, are not.
func (p *Policies) Of(row int, pinned int64) cache.Policy {
	if pinned > 0 {
		return p.Pinned
	}
	return p.Rows[row]
}
