package blocks

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

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
