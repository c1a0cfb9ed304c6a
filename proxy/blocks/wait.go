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
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// awaitRequired waits for X-Min-Block-Height and X-Min-Evm-Block, and for an X-Block-Height at most maxUnheard above the tip. It
// refuses a block that does not exist yet, and returns the tip to serve at. If the request names a block of the execution chain,
// q.Min becomes at least the height that includes it. The session's block is left to awaitSeen.
func (r *Reader) awaitRequired(ctx context.Context, from *web.Request, q *Read) (node.Tip, error) {
	rec := &from.Record
	if err := r.rolledBack(q); err != nil {
		return r.Nodes.Tip(), err
	}
	if q.EVM > 0 {
		height, err := r.heightOfExecutionBlock(ctx, rec, q)
		if err = cmp.Or(r.rolledBack(q), err); err != nil {
			return r.Nodes.Tip(), err
		}
		q.Min = max(q.Min, height)
	}
	tip := r.Nodes.Tip()
	required, header := q.Min, respond.MinHeightHeader
	if q.isInFuture(tip) && q.Pinned <= tip.Height+maxUnheard {
		required, header = q.Pinned, respond.HeightHeader
	}
	if !r.canServe(q, tip, required) { // do not wait for a block that has arrived, even if all nodes are down now
		leave, err := r.acquireWait(&rec.Client, tip, header)
		if err != nil {
			return tip, err
		}
		defer leave()
		within, cancel := context.WithTimeout(ctx, r.o.MinHeightWait)
		err = r.waitHeight(within, rec, required)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			err = notYet(tip, err, "block %d has not arrived; the newest is %d", required, r.Nodes.Tip().Height)
		}
		if rollback := r.rolledBack(q); rollback != nil {
			return tip, rollback
		}
		if tip = r.Nodes.Tip(); err != nil && (ctx.Err() != nil || !q.isInFuture(tip)) {
			return tip, err
		}
	}
	if q.isInFuture(tip) {
		return tip, failure.BadInput("block %d is in the future; the newest is %d", q.Pinned, tip.Height)
	}
	return tip, nil
}

// maxUnheard is how many blocks a client may be ahead of this replica, because it has heard of them from another one.
const maxUnheard = 2

// isInFuture reports whether a query names a block above the tip. It must wait for the block, or be refused.
func (q *Read) isInFuture(tip node.Tip) bool {
	return q.Kind.NoFuture && tip.Known && q.Pinned > tip.Height
}

// mustWait reports whether AwaitBlock would wait for a block, or refuse the query.
func (r *Reader) mustWait(q *Read, rec *record.Record, tip node.Tip) bool {
	minHeight := q.Min
	if q.Pinned == 0 {
		minHeight = max(minHeight, rec.Session.Wanted(tip))
	}
	return !r.canServe(q, tip, minHeight) || q.isInFuture(tip) || r.rolledBack(q) != nil
}

// canServe reports whether q and every query in q.With can be served from height or later, either because the tip has
// reached it or because memory has entries from there, which another replica may have read.
func (r *Reader) canServe(q *Read, tip node.Tip, height int64) bool {
	if height <= tip.Height {
		return true
	}
	if q.Pinned > 0 || !tip.Known {
		return false
	}
	return r.hasInMemory(q, tip, height) && !slices.ContainsFunc(q.With, func(other *Read) bool {
		return other.Pinned == 0 && !r.hasInMemory(other, tip, height)
	})
}

// hasInMemory reports whether memory has a fresh entry from a block or a later one, or one that never changes.
func (r *Reader) hasInMemory(q *Read, tip node.Tip, height int64) bool {
	query := r.cacheQuery(q, tip)
	e := r.cache.Peek(query)
	return e != nil && (e.Height >= height || query.Policy.IsImmutable(e.Stamp()))
}

// Peek returns the fresh entry in memory for a query, nil for none. It does not count as a use.
func (r *Reader) Peek(q *Read, tip node.Tip) *cache.Entry { return r.cache.Peek(r.cacheQuery(q, tip)) }

// acquireWait counts a client among the requests that wait for a block. header names the header that requires the
// block.
func (r *Reader) acquireWait(client *limits.Client, tip node.Tip, header string) (leave func(), err error) {
	if !tip.Known {
		return nil, &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true,
			Public: "the newest block is unknown at present: cannot wait for " + header}
	}
	return r.waiters.Enter(client, max(tip.Interval, time.Second))
}

// waitHeight waits for a block. Metrics leave this wait out of the duration of the request, but not reads of nodes.
func (r *Reader) waitHeight(ctx context.Context, rec *record.Record, height int64) error {
	began := time.Now()
	err := r.Nodes.WaitHeight(ctx, height)
	rec.Waited += time.Since(began)
	return err
}

// CheckHeight refuses an answer from below the required block: it is from a node that is catching up. A height of 0 is unknown.
func (r *Reader) CheckHeight(height, required int64) error {
	if 0 < height && height < required {
		return notYet(r.Nodes.Tip(), nil, "the chain node does not have block %d yet; its answer is from block %d", required, height)
	}
	return nil
}

// notYet returns a 504 that tells the client to retry after a block.
func notYet(tip node.Tip, err error, format string, args ...any) error {
	f := &failure.Failure{Status: http.StatusGatewayTimeout, RetryAfter: max(tip.Interval, time.Second), Expected: true, Public: fmt.Sprintf(format, args...)}
	if err != nil {
		f.Err = fmt.Errorf("%s: %w", f.Public, err)
	}
	return f
}

// farAhead bounds the block to wait for. No request waits for so many blocks, and adding it to a height cannot overflow.
const farAhead = 1 << 32

// heightOfExecutionBlock returns the lowest known height whose state includes the block of the execution chain that a
// request requires, and waits for it. For a later page of a list it first looks at the block of the walk. A read at a
// height that exists looks at that height alone.
func (r *Reader) heightOfExecutionBlock(ctx context.Context, rec *record.Record, q *Read) (height int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.MinHeightWait)
	defer cancel()
	tip := r.Nodes.Tip()
	if at := cmp.Or(q.Pinned, q.Walk.Height); 0 < at && at <= tip.Height {
		leave, refused := r.waiters.Enter(&rec.Client, max(tip.Interval, time.Second)) // a node may be read
		if refused != nil {
			return 0, refused
		}
		since, newest, err := r.Nodes.Executed(ctx, rec.Client.Name(), at, q.EVM)
		leave()
		switch {
		case since > 0:
			return since, nil
		case q.Pinned > 0 && err != nil:
			return 0, executionError(err)
		case q.Pinned > 0:
			return 0, notYet(tip, nil, "block %d of the execution client is not included at block %d; the newest included is %d", q.EVM, at, newest)
		}
	}
	since, newest, err := r.Nodes.Executed(ctx, rec.Client.Name(), tip.Height, q.EVM)
	if since > 0 {
		return since, nil
	}
	leave, refused := r.acquireWait(&rec.Client, tip, respond.MinEVMHeader)
	if refused != nil {
		return 0, refused
	}
	defer leave()
	if err != nil {
		return 0, executionError(err)
	}
	return r.awaitExecuted(ctx, rec, tip, q.EVM, newest)
}

// awaitExecuted waits for the block whose state includes the block of the execution chain. newest is the one that is
// included at the tip.
func (r *Reader) awaitExecuted(ctx context.Context, rec *record.Record, tip node.Tip, block, newest int64) (height int64, err error) {
	for {
		// A block includes at most one block of the execution chain.
		err = r.waitHeight(ctx, rec, tip.Height+min(block-newest, farAhead))
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, notYet(tip, err, "block %d of the execution client is not included yet; the newest included is %d", block, newest)
		}
		if err != nil {
			return 0, err
		}
		tip = r.Nodes.Tip()
		if height, newest, err = r.Nodes.Executed(ctx, rec.Client.Name(), tip.Height, block); height > 0 || err != nil {
			return height, executionError(err)
		}
	}
}

// executionError converts the error of a request that names an execution block which no node reports.
func executionError(err error) error {
	if errors.Is(err, node.ErrNoExecution) {
		return failure.BadInput("cannot wait for %s: no node reports the blocks of an execution client", respond.MinEVMHeader)
	}
	return err
}
