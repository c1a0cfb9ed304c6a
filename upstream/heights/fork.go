package heights

import (
	"context"
	"errors"
)

// hashOf is the hash that our nodes have of a block, "" where none can be asked.
func (c *Chain) hashOf(ctx context.Context, height int64) string {
	if hash := c.anchors.at(height); hash != "" {
		return hash
	}
	for _, f := range c.rest {
		if hash, err := f.node.hash(ctx, height); err == nil && hash != "" {
			return hash
		}
	}
	return ""
}

var errUnfit = errors.New("it is not asked for blocks now")

// hash asks a node of our chain for the hash of a block, "" where it tells none.
func (n *Node) hash(ctx context.Context, height int64) (string, error) {
	v := n.Look()
	switch {
	case v.Foreign() || v.Unseen:
		return "", errUnfit
	case n.Comet != nil && !v.CometDown:
		return n.Comet.Hash(ctx, height)
	}
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	return n.Reader.BlockHash(ctx, height)
}

// recognize compares what an endpoint says of a block with what is remembered,
// and says whether it is on our chain. Another hash is another chain: if another
// node still has the block that is remembered, the endpoint is not used, else
// the chain itself was reset.
func (f *follower) recognize(ctx context.Context, epoch, height int64, hash string) bool {
	known := f.chain.anchors.at(height)
	if known == "" {
		if f.fork == 0 {
			return true
		}
		height = f.fork // blocks that only this node has say nothing of the fork
		known = f.chain.anchors.at(height)
	} else if known == hash || hash == "" {
		f.rejoin()
		return true
	}
	if known != "" && f.chain.othersHave(ctx, f.node, height, known) {
		f.excludeFork(height)
		return false
	}
	f.rejoin()
	if known != "" {
		f.chain.changeEpoch(ctx, epoch, "a block has another hash than before")
	}
	return true
}

// recognizeNewest asks a node that may have been restarted for a block that is
// remembered.
func (f *follower) recognizeNewest(ctx context.Context) {
	epoch := f.chain.Tip().Epoch
	height := f.chain.anchors.atOrBelow(f.node.Look().Height - 1)
	if height == 0 {
		return
	}
	if hash, err := f.node.Comet.Hash(ctx, height); err == nil {
		f.recognize(ctx, epoch, height, hash)
	}
}

// excludeFork keeps an endpoint from being read: its answers are of another chain.
func (f *follower) excludeFork(height int64) {
	if f.fork == 0 {
		f.node.Logger.Error("node is on another fork of the chain and is not used", "block", height)
	}
	f.fork = height
	f.node.update(func(v *State) { v.Forked, v.Height = true, 0 })
	f.chain.tip.PutAside(f.source)
	f.chain.moved.notify()
}

// rejoin has an endpoint used again that excludeFork kept from being read.
func (f *follower) rejoin() {
	if f.fork > 0 {
		f.node.Logger.Info("node is on our chain again")
	}
	f.fork = 0
	f.node.update(func(v *State) { v.Forked = false })
}

// othersHave says whether another node has a block with this hash.
func (c *Chain) othersHave(ctx context.Context, except *Node, height int64, hash string) bool {
	for _, f := range c.rest {
		if f.node == except {
			continue
		}
		if got, err := f.node.hash(ctx, height); err == nil && got == hash {
			return true
		}
	}
	return false
}

// A hasher is a source of heights that can tell which blocks they are.
type hasher interface {
	// blockHash reads the hash of a block, "" where headers tell it, or the node never does.
	blockHash(ctx context.Context, height int64) (string, error)
	// isOurs says whether a block with such a hash, "" for one that is not known, is of our chain.
	isOurs(ctx context.Context, epoch, height int64, hash string) bool
}

func (f *follower) isOurs(ctx context.Context, epoch, height int64, hash string) bool {
	if hash == "" {
		return f.fork == 0
	}
	return f.recognize(ctx, epoch, height, hash)
}

// isOurs has another hash than the one that is remembered be another chain: that of this node
// alone, where another node has the block that is remembered, or else the one that was reset.
func (f *restFollower) isOurs(ctx context.Context, epoch, height int64, hash string) bool {
	known := f.chain.anchors.at(height)
	if known == "" || hash == "" || known == hash {
		return true
	}
	if f.chain.othersHave(ctx, f.node, height, known) {
		f.putAside(height+1, errFork)
		return false
	}
	f.chain.changeEpoch(ctx, epoch, "a block has another hash than before")
	return true
}
