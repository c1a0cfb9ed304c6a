package blocks

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// snapshot returns the query pinned to the block of its walk. It returns false if that block must not be read: the
// request names another one, or the chain was rolled back since the previous page.
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

// awaitReplica waits for a block that another replica has already served, for at most the time of two blocks.
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

// Together returns a request whose queries are read one after another. All of them together wait for the blocks of
// their walks as long as one of them would.
func Together(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), togetherKey{}, new(time.Time)))
}

// outOfReach reports whether no node has the block of a pinned read.
func outOfReach(res cache.Result) bool { return res.Entry.Height == 0 }

// at returns the query pinned to another block.
func (q *Query) at(height int64) *Query {
	pinned := *q
	pinned.Heights = Heights{Pinned: height}
	return &pinned
}

// reads returns an entry from the cache.
type reads = func(ctx context.Context, client string) (cache.Result, error)

// walked reads a later page of a walk at the block of the walk while a node has that block, and then at the tip.
func walked(atBlock, atTip reads) reads {
	pruned := false
	return func(ctx context.Context, client string) (cache.Result, error) {
		if !pruned {
			res, err := atBlock(ctx, client)
			if err != nil || !outOfReach(res) {
				return res, err
			}
			pruned = true
		}
		return atTip(ctx, client)
	}
}
