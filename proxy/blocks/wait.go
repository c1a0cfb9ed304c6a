package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// await waits for the block that a request must see, refuses one that does not exist yet, and returns the
// tip to answer by. The execution client's block becomes one of the chain's that must be seen.
func (r *Reader) await(ctx context.Context, from *http.Request, rec *web.Record, q *Query) (tip node.Tip, err error) {
	tip, err = r.awaitRequired(ctx, from, rec, q)
	if q.Pinned == 0 && q.Kind.Class != Never && err == nil {
		tip = r.follow(ctx, from, rec, q, tip)
	}
	return tip, err
}

// awaitRequired does so but for the newest block that the client has seen.
func (r *Reader) awaitRequired(ctx context.Context, from *http.Request, rec *web.Record, q *Query) (node.Tip, error) {
	if q.EVM > 0 {
		height, err := r.executed(ctx, from, rec, q)
		if err != nil {
			return r.Nodes.Tip(), err
		}
		q.Min = max(q.Min, height)
	}
	if err := r.gone(q); err != nil {
		return r.Nodes.Tip(), err
	}
	tip := r.Nodes.Tip()
	if !r.has(q, tip, q.Min) { // a block that was seen stays seen, whatever is down now
		leave, err := r.enter(from, rec, tip, web.MinHeightHeader)
		if err != nil {
			return tip, err
		}
		defer leave()
		err = r.awaitHeight(ctx, q.Min)
		if gone := r.gone(q); gone != nil {
			return tip, gone
		} else if err != nil {
			return tip, err
		}
		tip = r.Nodes.Tip()
	}
	if q.inFuture(tip) {
		return tip, web.BadInput("block %d is in the future; the newest is %d", q.Pinned, tip.Height)
	}
	return tip, nil
}

// inFuture tells whether a query is about a block that it cannot name yet.
func (q *Query) inFuture(tip node.Tip) bool {
	return q.Kind.NoFuture && tip.Known && q.Pinned > tip.Height
}

// waits tells whether AwaitBlock would wait for a block, or refuse the query: for the one that
// it must see, or, unless it is pinned to one, for one that its client has seen.
func (r *Reader) waits(q *Query, rec *web.Record, tip node.Tip) bool {
	least := q.Min
	if q.Pinned == 0 {
		least = max(least, wanted(rec, tip))
	}
	return !r.has(q, tip, least) || q.inFuture(tip) || r.gone(q) != nil
}

// has tells whether a query can be answered from a block on: that has come, or memory has
// the answer, which another replica may have read there.
func (r *Reader) has(q *Query, tip node.Tip, height int64) bool {
	if height <= tip.Height {
		return true
	}
	if q.Pinned > 0 || !tip.Known {
		return false
	}
	return r.remembers(q, tip, height) && !slices.ContainsFunc(q.With, func(other *Query) bool {
		return other.Pinned == 0 && !r.remembers(other, tip, height)
	})
}

// remembers tells whether memory has an answer of a block or a later one.
func (r *Reader) remembers(q *Query, tip node.Tip, height int64) bool {
	asked := r.asked(q, tip)
	e := r.cache.Peek(asked)
	return e != nil && (e.Height >= height || asked.Policy.IsImmutable(e.Stamp()))
}

// Peek gives the entry that memory would answer a query with, nil for none, and leaves no trace of that.
func (r *Reader) Peek(q *Query, tip node.Tip) *cache.Entry { return r.cache.Peek(r.asked(q, tip)) }

// enter takes a place among the requests that wait for a block; the header is the one
// that names the block.
func (r *Reader) enter(from *http.Request, rec *web.Record, tip node.Tip, header string) (leave func(), err error) {
	if !tip.Known {
		return nil, &web.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true,
			Public: "the newest block is not known at present, so " + header + " cannot be waited for"}
	}
	return r.waiters.Enter(from, rec.Tenant, max(tip.Interval, time.Second))
}

// awaitHeight waits for a block, within bounds.
func (r *Reader) awaitHeight(ctx context.Context, height int64) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.MinHeightWait)
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

// farAhead is more blocks than a request waits for.
const farAhead = 1 << 32

// executed gives the lowest height at which the execution client's block is known to
// count that a request must see, and waits for it. A later page of a list has its walk's
// block judged first; the state at a height is that of this one alone.
func (r *Reader) executed(ctx context.Context, from *http.Request, rec *web.Record, q *Query) (height int64, err error) {
	tip := r.Nodes.Tip()
	if at := cmp.Or(q.Pinned, q.Walk.Height); 0 < at && at <= tip.Height {
		since, newest, err := r.Nodes.Executed(ctx, at, q.EVM)
		switch {
		case since > 0:
			return since, nil
		case q.Pinned > 0 && err != nil:
			return 0, untold(err)
		case q.Pinned > 0:
			return 0, tooLate(tip, nil, "block %d of the execution client does not count at block %d; the newest that does is %d", q.EVM, at, newest)
		}
	}
	since, newest, err := r.Nodes.Executed(ctx, tip.Height, q.EVM)
	if since > 0 {
		return since, nil
	}
	leave, refused := r.enter(from, rec, tip, web.MinEVMHeader)
	if refused != nil {
		return 0, refused
	}
	defer leave()
	if err != nil {
		return 0, untold(err)
	}
	return r.awaitExecuted(ctx, tip, q.EVM, newest)
}

// awaitExecuted waits for the block in whose state the execution client's block counts.
// newest is the one that counts at the tip.
func (r *Reader) awaitExecuted(ctx context.Context, tip node.Tip, block, newest int64) (height int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.MinHeightWait)
	defer cancel()
	for {
		// A block carries one of the execution client's at most.
		err = r.Nodes.WaitHeight(ctx, tip.Height+min(block-newest, farAhead))
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, tooLate(tip, err, "block %d of the execution client does not count yet; the newest that does is %d", block, newest)
		}
		if err != nil {
			return 0, err
		}
		tip = r.Nodes.Tip()
		if height, newest, err = r.Nodes.Executed(ctx, tip.Height, block); height > 0 || err != nil {
			return height, untold(err)
		}
	}
}

// untold is the failure of a request that names a block of which no node tells.
func untold(err error) error {
	if errors.Is(err, node.ErrNoExecution) {
		return web.BadInput("%s cannot be waited for: no node tells of an execution client's blocks", web.MinEVMHeader)
	}
	return err
}
