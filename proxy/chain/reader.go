package chain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
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
	Nodes Nodes
	Cache Cache
	Stack *web.Stack

	rows     []Row                    // of the dialect's table
	prefix   string                   // of the dialect's keys, so that none is served as another's
	policies atomic.Pointer[policies] // replaced while serving, read without a lock
	strict   bool                     // a request cannot name a block that is still to come
	auth     bool                     // a key is required
	wait     time.Duration            // for a block that a request must see
	patience time.Duration            // for one that its client has seen; 0 for a part of the block's time
	waiters  *limits.Places
}

// NewReader makes a reader of what the rows of a dialect say. Of the options it reads Nodes,
// which is required, Classes, Routes, Auth, MinHeightWait and Patience.
func NewReader(o Options, prefix string, rows []Row, stack *web.Stack, c Cache) (*Reader, error) {
	if o.Nodes == nil {
		return nil, errors.New("chain: Nodes is required")
	}
	o = o.WithDefaults()
	r := &Reader{
		Nodes: o.Nodes, Cache: c, Stack: stack, rows: rows, prefix: prefix,
		auth: o.Auth, wait: o.MinHeightWait, patience: o.Patience, waiters: stack.NewWaiters(),
	}
	return r, r.SetClasses(o.Classes, o.Routes)
}

// Admit lets those pass who may ask.
func (r *Reader) Admit(c *gin.Context, rec *web.Record) error {
	if !r.auth {
		return nil
	}
	return r.Stack.AdmitKey(c, rec)
}

// Heights are the blocks that a request names: at most one to be read at, and one
// that must have been seen.
type Heights struct {
	Pinned, Min int64 // 0 for none
	EVM         int64 // the execution client's block that must have been seen; 0 for none
}

// Settle waits for the block that a request must see, refuses one that does not exist
// yet, and returns the tip to answer by. The execution client's block becomes one of the
// chain's that must be seen. walk is the block that a later page of a list goes on with, 0
// for none.
func (r *Reader) Settle(ctx context.Context, from *http.Request, rec *web.Record, hs *Heights, walk int64) (node.Tip, error) {
	if hs.EVM > 0 {
		height, err := r.executed(ctx, from, rec, hs, walk)
		if err != nil {
			return r.Nodes.Tip(), err
		}
		hs.Min = max(hs.Min, height)
	}
	tip := r.Nodes.Tip()
	if hs.Min > tip.Height { // a block that was seen stays seen, whatever is down now
		leave, err := r.enter(from, rec, tip, web.MinHeightHeader)
		if err != nil {
			return tip, err
		}
		defer leave()
		if err := r.await(ctx, hs.Min); err != nil {
			return tip, err
		}
		tip = r.Nodes.Tip()
	}
	if r.strict && tip.Known && hs.Pinned > tip.Height {
		return tip, web.BadInput("block %d is in the future; the newest is %d", hs.Pinned, tip.Height)
	}
	return tip, nil
}

// follow waits a little for the newest block that the client has seen on its
// connection, of which another replica may have told, and returns the tip to answer by.
func (r *Reader) follow(ctx context.Context, rec *web.Record, tip node.Tip) node.Tip {
	seen, awaited := rec.Seen(tip.Epoch)
	if !tip.Known || awaited || seen <= tip.Height {
		return tip
	}
	ctx, cancel := context.WithTimeout(ctx, cache.Patience(r.patience, tip.Interval))
	defer cancel()
	if r.Nodes.WaitHeight(ctx, seen) != nil { // the answer says that it is an older one
		rec.Awaited()
	}
	return r.Nodes.Tip()
}

// waits tells whether a request would wait for a block, or be refused: for the one that it
// must see, or, unless it is pinned to one, for the newest that its client has seen.
func (r *Reader) waits(rec *web.Record, hs *Heights, tip node.Tip) bool {
	seen, awaited := rec.Seen(tip.Epoch)
	if hs.Pinned == 0 && tip.Known && !awaited && seen > tip.Height {
		return true
	}
	return hs.Min > tip.Height || r.strict && tip.Known && hs.Pinned > tip.Height
}

// mark calls an answer stale that is of a block before one that the client has seen on
// its connection, by more than its class allows, and notes what the client sees.
func (r *Reader) mark(rec *web.Record, res *cache.Result, query *cache.Query, tip node.Tip) {
	height := res.Entry.Height
	if rec.Pinned || !tip.Known || height == 0 || query.Policy.IsImmutable(res.Entry) {
		return
	}
	rec.Show(tip.Epoch, height)
	seen, _ := rec.Seen(tip.Epoch)
	if seen-height > query.Policy.FreshBlocks && (res.Outcome == cache.Hit || res.Outcome == cache.Miss) {
		res.Outcome = cache.StaleHit
	}
}

// enter takes a place among the requests that wait for a block; the header is the one
// that names the block.
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
	err := r.Nodes.WaitHeight(ctx, height)
	if errors.Is(err, context.DeadlineExceeded) {
		return r.late(height, err)
	}
	return err
}

// late is the failure of a request that must see a block that does not come.
func (r *Reader) late(height int64, err error) error {
	tip := r.Nodes.Tip()
	return tooLate(tip, err, "block %d has not come; the newest is %d", height, tip.Height)
}

func tooLate(tip node.Tip, err error, format string, args ...any) error {
	return &web.Failure{Status: http.StatusGatewayTimeout, RetryAfter: max(tip.Interval, time.Second), Err: err, Expected: true, Public: fmt.Sprintf(format, args...)}
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

// answer is what a result comes to.
func (r *Reader) answer(rec *web.Record, res cache.Result, query *cache.Query, tip node.Tip, now time.Time) web.Answer {
	r.mark(rec, &res, query, tip)
	rec.Result(res)
	if res.Entry.Height > tip.Height && res.Entry.Status == http.StatusOK {
		r.Nodes.Raise(res.Entry.Height) // another replica has read there
	}
	return web.Answer{
		Result: res, Key: query.Key, Policy: query.Policy, Now: now, Until: freshUntil(res.Entry, query.Policy, tip, now),
		CatchingUp: tip.CatchingUp && !query.Policy.IsImmutable(res.Entry),
		Seconds:    !tip.Known && !query.Policy.IsImmutable(res.Entry), Private: r.auth, Vary: varyOn,
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
