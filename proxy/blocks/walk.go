package blocks

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream/node"
)

// snapshot returns the query pinned to the block of its walk. It returns false if that block must not be read: the
// request requires another one, the chain was rolled back since the previous page, or the block does not arrive in time.
func (r *Reader) snapshot(ctx context.Context, rec *record.Record, q *Read, tip node.Tip) (at *Read, ok bool) {
	height := q.Walk.Height
	if height == 0 || q.Pinned > 0 || q.Min > height || q.Walk.Epoch != uint64(tip.Epoch) {
		return nil, false
	}
	if tip.Known && height > tip.Height && !r.awaitReplica(ctx, rec, height, tip) {
		return nil, false
	}
	return q.at(height), true
}

// awaitReplica waits for a block that another replica has already served, for at most the time of two blocks. It returns
// false at once if the chain cannot have reached the block, or if the client has no place to wait.
func (r *Reader) awaitReplica(ctx context.Context, rec *record.Record, height int64, tip node.Tip) bool {
	if tip.Limit > 0 && height > tip.Limit {
		return false
	}
	leave, err := r.waiters.Enter(&rec.Client, tip.Interval)
	if err != nil {
		return false
	}
	defer leave()
	until := time.Now().Add(min(2*tip.Interval, r.o.MinHeightWait))
	if t, ok := ctx.Value(sharedWaitKey{}).(*time.Time); ok {
		if t.IsZero() {
			*t = until
		}
		until = *t
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return r.waitHeight(ctx, rec, height) == nil
}

type sharedWaitKey struct{}

// SharedWait returns a request whose queries are read one after another and share one wait budget for the blocks
// of their walks.
func SharedWait(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), sharedWaitKey{}, new(time.Time)))
}

// isOutOfReach reports whether no node has the block of a pinned read. Entries of Story then have no height.
func isOutOfReach(res cache.Result) bool { return res.Entry.Height == 0 }

// at returns the query pinned to another block.
func (q *Read) at(height int64) *Read {
	pinned := *q
	pinned.Heights = Heights{Pinned: height}
	return &pinned
}

// readFunc is the Read of a [web.Feed].
type readFunc = func(ctx context.Context, client string) (cache.Result, int64, error)

// walked returns a function that reads a later page at the block of its walk until a rollback ends the epoch or no node has
// that block, and then at the tip.
func (r *Reader) walked(atBlock, atTip readFunc, epoch int64) readFunc {
	ended := false
	return func(ctx context.Context, client string) (cache.Result, int64, error) {
		if ended = ended || r.Nodes.Tip().Epoch != epoch; !ended {
			res, pinned, err := atBlock(ctx, client)
			if err != nil || !isOutOfReach(res) {
				return res, pinned, err
			}
			ended = true
		}
		return atTip(ctx, client)
	}
}
