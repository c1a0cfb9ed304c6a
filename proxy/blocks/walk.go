package blocks

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

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

// at is the query as one about another block.
func (q *Query) at(height int64) *Query {
	pinned := *q
	pinned.Heights = Heights{Pinned: height}
	return &pinned
}

// reads gives an answer of the cache.
type reads = func(ctx context.Context, client string) (cache.Result, error)

// walked reads a later page of a walk at the block of the walk, until no node has
// that block, and from then on at the tip.
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
