package chain

import (
	"context"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// snapshot is the request as one about the block that its page key names. It is
// not ok where there is no such block to be read: the request names another one,
// or the chain has been set back since the key was made.
func (ep *endpoint) snapshot(ctx context.Context, q cacheRequest, hs heights, tip node.Tip) (_ cacheRequest, _ heights, ok bool) {
	at := q.walk.height
	if at == 0 || hs.pinned > 0 || hs.min > at || q.walk.epoch != uint64(tip.Epoch) {
		return q, hs, false
	}
	if tip.Known && at > tip.Height && !ep.awaitReplica(ctx, at, tip) {
		return q, hs, false
	}
	return q.at(at), heights{pinned: at}, true
}

// awaitReplica waits for a block that another replica has seen already, two
// blocks' time at the most.
func (ep *endpoint) awaitReplica(ctx context.Context, height int64, tip node.Tip) bool {
	ctx, cancel := context.WithTimeout(ctx, min(2*tip.Interval, ep.o.MinHeightWait))
	defer cancel()
	return ep.o.Nodes.WaitHeight(ctx, height) == nil
}

// outOfReach tells of an answer to a pinned read that no node has the block.
func outOfReach(res cache.Result) bool { return res.Entry.Height == 0 }
