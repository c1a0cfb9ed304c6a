package heights

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// hashOf is the hash that our nodes have of a block, "" where none can be asked.
func (c *Chain) hashOf(ctx context.Context, height int64) string {
	if hash := c.anchors.at(height); hash != "" {
		return hash
	}
	for _, m := range c.all() {
		f := m.rest
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

// isOurs tells whether a block with such a hash is of our chain; without one the endpoint stays what
// it was. Another hash than the remembered one is another chain: the endpoint's, which is not used
// then, if another node still has the remembered block; else the chain was reset. An endpoint on a
// fork comes back by a remembered hash.
func (f *follower) isOurs(ctx context.Context, epoch, height int64, hash string) bool {
	known := f.chain.anchors.at(height)
	switch {
	case hash == "" || known == "" && f.fork == 0:
		return f.fork == 0
	case known == hash:
		f.rejoin()
		return true
	case known == "":
		height = f.fork // blocks that only this node has say nothing of the fork
		known = f.chain.anchors.at(height)
	}
	if known != "" {
		defer f.chain.contradict()()
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

// recognizeNewest asks a node that may have been restarted for a remembered block.
func (f *follower) recognizeNewest(ctx context.Context) {
	epoch := f.chain.Tip().Epoch
	height := f.chain.anchors.atOrBelow(f.node.Look().Height - 1)
	if height == 0 {
		return
	}
	if hash, err := f.node.Comet.Hash(ctx, height); err == nil {
		f.isOurs(ctx, epoch, height, hash)
	}
}

// excludeFork keeps an endpoint from being read: its answers are of another chain.
func (f *follower) excludeFork(height int64) {
	if f.fork == 0 {
		f.node.Logger.Error("node is on another fork, not using it", "block", height)
	}
	f.fork = height
	f.node.update(func(v *State) { v.Forked, v.Height = true, 0 })
	f.chain.tip.PutAside(f.source)
	f.chain.moved.notify()
}

// rejoin has an endpoint used again that excludeFork kept from being read.
func (f *follower) rejoin() {
	if f.fork == 0 {
		return
	}
	f.node.Logger.Info("node is on the same fork again")
	f.fork = 0
	f.node.update(func(v *State) { v.Forked = false })
}

// othersHave says whether another node has a block with this hash.
func (c *Chain) othersHave(ctx context.Context, except *Node, height int64, hash string) bool {
	for _, m := range c.all() {
		f := m.rest
		if f.node == except {
			continue
		}
		if got, err := f.node.hash(ctx, height); err == nil && got == hash {
			return true
		}
	}
	return false
}

// isOurs judges as that of a follower, but an endpoint on a fork is asked again.
func (f *restFollower) isOurs(ctx context.Context, epoch, height int64, hash string) bool {
	known := f.chain.anchors.at(height)
	if known == "" || hash == "" || known == hash {
		return true
	}
	defer f.chain.contradict()()
	if f.chain.othersHave(ctx, f.node, height, known) {
		f.putAside(height+1, errFork)
		return false
	}
	f.chain.changeEpoch(ctx, epoch, "a block has another hash than before")
	return true
}

// watchFall asks for the highest block that was read as long as every source names lower ones,
// until a node answers or the chain is set back, after RollbackAfter.
func (c *Chain) watchFall(ctx context.Context) {
	for {
		moved := c.moved.next()
		var again <-chan time.Time
		if height, since := c.tip.Falling(); height > 0 {
			c.guard(func() { c.judgeFall(ctx, height, since) })
			moved, again = nil, time.After(c.untilJudged(since)) // a round at a time
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-again:
		}
	}
}

// shortest is how long all sources are lower before that is looked into: one may be a block behind.
func (c *Chain) shortest() time.Duration {
	return min(c.Tip().Interval, maxPatience, c.o.RollbackAfter/2)
}

// untilJudged is the time to the next read at the proved height, or to the end of RollbackAfter.
func (c *Chain) untilJudged(since time.Time) time.Duration {
	pause := c.shortest()
	if left := c.o.RollbackAfter - time.Since(since); left > 0 {
		pause = min(pause, left)
	}
	return pause
}

// judgeFall reads at a height that every source is below since some time.
func (c *Chain) judgeFall(ctx context.Context, height int64, since time.Time) {
	epoch, lasted := c.Tip().Epoch, time.Since(since)
	if lasted < c.shortest() {
		return
	}
	switch answered, refused := c.canRead(ctx, height); {
	case answered:
		c.tip.Prove(epoch, height)
		for _, s := range c.claimants() {
			if c.tip.Lowers(s.source) {
				s.putAside(s.node.Look().Height, errLow)
			}
		}
	case refused && lasted >= c.o.RollbackAfter && c.tip.SetBack():
		c.changeEpoch(ctx, epoch, "every source is lower, and no node can be read as high as before")
	}
}

// canRead asks all nodes of our chain at once for a height. refused says that a node answered that
// it does not have the height. A refusal that names a higher latest height is an answer.
func (c *Chain) canRead(ctx context.Context, height int64) (answered, refused bool) {
	var asked sync.WaitGroup
	var yes, no atomic.Bool
	for _, m := range c.all() {
		f := m.rest
		if v := f.node.Look(); !v.Foreign() {
			asked.Go(func() {
				c.guard(func() {
					switch has, err := f.node.has(ctx, c, height); {
					case err == nil && has:
						yes.Store(true)
					case err == nil || errors.Is(err, errNoProbe):
						no.Store(true)
					}
				})
			})
		}
	}
	asked.Wait()
	return yes.Load(), no.Load()
}
