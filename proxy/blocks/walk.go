package blocks

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// snapshot returns the query pinned to the block of its walk. It returns false if that block must not be read: the
// request requires another one, the chain was rolled back since the previous page, or the block does not arrive in time.
func (r *Reader) snapshot(ctx context.Context, from *web.Request, q *Read, tip node.Tip) (at *Read, ok bool) {
	height := q.Walk.Height
	if height == 0 || q.Pinned > 0 || q.Min > height || q.Walk.Epoch != uint64(tip.Epoch) {
		return nil, false
	}
	if tip.Known && height > tip.Height && !r.awaitReplica(ctx, from, height, tip) {
		return nil, false
	}
	return q.at(height), true
}

// awaitReplica waits for a block that another replica has already served, for at most the time of two blocks. It returns
// false at once if the chain cannot have reached the block, or if the client has no place to wait.
func (r *Reader) awaitReplica(ctx context.Context, from *web.Request, height int64, tip node.Tip) bool {
	if tip.Limit > 0 && height > tip.Limit {
		return false
	}
	leave, err := r.waiters.Enter(&from.Record.Client, tip.Interval)
	if err != nil {
		return false
	}
	defer leave()
	until := time.Now().Add(min(2*tip.Interval, r.o.MinHeightWait))
	if end := from.WalkWait; end != nil {
		if end.IsZero() {
			*end = until
		}
		until = *end
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return r.waitHeight(ctx, &from.Record, height) == nil
}

// isOutOfReach reports whether no node has the block of a pinned read. Entries of Story then have no height.
func isOutOfReach(res cache.Result) bool { return res.Entry.Height == 0 }

// at returns the query pinned to another block.
func (q *Read) at(height int64) *Read {
	pinned := *q
	pinned.Heights = web.Heights{Pinned: height}
	return &pinned
}
