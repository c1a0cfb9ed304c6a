package heights

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// hashOf returns the hash of a block, known or read from a node, or "" if no node provides it.
func (c *Chain) hashOf(ctx context.Context, height int64) string {
	if hash := c.hashes.at(height); hash != "" {
		return hash
	}
	for _, m := range c.all() {
		if v := m.node.State(); !v.Foreign() {
			if hash, err := m.node.hash(ctx, height); err == nil && hash != "" {
				return hash
			}
		}
	}
	return ""
}

// hash reads the hash of a block from a node. It returns "" if the node has no hashes or has not been called yet.
func (n *Node) hash(ctx context.Context, height int64) (string, error) {
	v := n.State()
	switch {
	case v.Unseen:
		return "", nil
	case n.Comet != nil && !v.CometDown:
		return n.Comet.Hash(ctx, height)
	}
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	return n.Reader.BlockHash(ctx, height)
}

// checkHash reports whether a block with this hash belongs to the chain. If the hash differs from the known one,
// it excludes a node on a fork (decideFork) until the node has a block with a known hash. If there are no two hashes to
// compare, it compares the newest confirmed block since the node's fork, or that of the fork, whose hash may be known no longer.
// As headers may come from another server than the RPC server, that must then have the block of the last header, too.
func (s *heightSource) checkHash(ctx context.Context, epoch, height int64, hash string) (ours bool) {
	known, fork := s.chain.hashes.at(height), s.node.State().Fork
	if hash == "" || known == "" {
		if fork == 0 {
			return true
		}
		isUnknown := hash == ""
		newest, _ := s.chain.hashes.confirmed()
		if newest < fork || newest > height {
			newest = fork
		}
		height, known = newest, s.chain.hashOf(ctx, newest) // another replica's epoch begins without hashes
		if hash, _ = s.node.hash(ctx, height); hash == known && s.header.hash != "" {
			if read, _ := s.node.hash(ctx, s.header.height); read != s.header.hash {
				hash = ""
			}
		}
		if isUnknown && (hash == "" || hash != known) {
			return false
		}
	}
	if (known == "" || hash != known) && s.decideFork(ctx, epoch, height, known, hash) {
		s.chain.excludeFork(s.node, height)
		return false
	}
	s.silence = time.Time{}
	if fork != 0 {
		s.node.Logger.Info("node is on the same fork again")
		s.node.update(func(v *State) { v.Fork = 0 })
	}
	return true
}

// restartTime is how long nodes that may still have the known block are awaited, in units of RollbackAfter.
const restartTime = 6

// decideFork decides what it means that this node has another block at a height than the known one. This node is on a fork if
// at least as many nodes have the known block as have this node's. Nodes that have not responded for less than restartTime count
// among the former. Otherwise the chain was reset, or the first node that had a block at the height is on a fork: decideFork
// begins a new epoch and excludes the nodes that have the known block. But if only the headers of one node have had the known hash,
// and its RPC server has another one, the headers are false: decideFork replaces the hash and excludes that node. known is "" if
// the chain's block is unknown, as after another replica has begun an epoch: the node is then on no fork, unless others are awaited.
func (s *heightSource) decideFork(ctx context.Context, epoch, height int64, known, hash string) (forked bool) {
	if s.node.State().Fork == 0 {
		defer s.chain.contradict()()
	}
	holders, late, agreeing, silent := s.chain.compareOthers(ctx, s.node, height, known, hash)
	has := len(holders) + late
	awaited := has <= agreeing && has+silent > agreeing
	if !awaited {
		s.silence = time.Time{}
	} else if s.silence.IsZero() {
		s.silence = time.Now()
	}
	if has > agreeing || awaited && time.Since(s.silence) < restartTime*s.chain.o.RollbackAfter {
		return true
	}
	if known == "" {
		return false
	}
	if by := s.chain.hashes.current.Load().known(height).by; by != nil {
		own, err := by.node.hash(ctx, height)
		if isSame := by.node == s.node; err == nil && own != "" && own != known && (own == hash || isSame) {
			s.chain.hashes.addAll(map[int64]string{height: own}, nil, func() bool { return s.chain.Tip().Epoch == epoch })
			s.chain.excludeFork(by.node, height)
			return isSame
		}
	}
	s.chain.changeEpoch(ctx, epoch, "a block has another hash than before")
	s.chain.hashes.addAll(map[int64]string{height: hash}, nil, func() bool { return s.chain.hashes.at(height) == "" })
	for _, n := range holders {
		s.chain.excludeFork(n, height)
	}
	return false
}

// checkFork compares the hash of a block at a node, which may have been restarted, with the known hash.
func (f *rpcFollower) checkFork(ctx context.Context) {
	epoch := f.chain.Tip().Epoch
	height := f.chain.hashes.atOrBelow(f.node.State().Height - 1)
	if height == 0 {
		return
	}
	if hash, err := f.node.Comet.Hash(ctx, height); err == nil {
		f.checkHash(ctx, epoch, height, hash)
	}
}

// othersStream reports whether a node other than n streams headers at about a height: it would show a false hash in n's headers.
func (c *Chain) othersStream(n *Node, height int64) bool {
	return slices.ContainsFunc(c.all(), func(m *member) bool {
		v := m.node.State()
		return m.node != n && v.Connected && !v.Foreign() && v.Height >= height-tip.Slack
	})
}

// excludeFork excludes a node on another fork from use.
func (c *Chain) excludeFork(n *Node, height int64) {
	if n.State().Fork == 0 {
		n.Logger.Error("node is on another fork, not using it", "block", height)
	}
	n.update(func(v *State) { v.Fork, v.Height = height, 0 })
	for _, s := range c.sources() {
		if s.node == n {
			c.tip.Distrust(s.source)
		}
	}
	c.moved.notify()
}

// longSilence is the time without a claim after which a node that does not respond is not awaited.
const longSilence = time.Hour

// compareOthers reads the hash of a block from the nodes other than except. holders are the nodes that have the known block, and
// late is the number of nodes that soon have it; neither includes nodes on a fork. agreeing is the number of nodes that have the
// other block. silent is the number of nodes that did not respond, but have done so within longSilence.
func (c *Chain) compareOthers(ctx context.Context, except *Node, height int64, known, other string) (holders []*Node, late, agreeing, silent int) {
	for _, r := range c.readHashes(ctx, except, height) {
		v, got, err := r.before, r.hash, r.err
		switch {
		case err == nil && got != "" && got == other:
			agreeing++
		case v.Fork != 0:
		case err == nil && got != "" && got == known:
			holders = append(holders, r.node)
		case time.Since(v.Spoke) > longSilence:
		case err == nil && got == "" && r.node.Comet != nil: // CometBFT does not respond, and the REST server has no hashes
			silent++
		case err != nil && !lacksBlock(err):
			silent++
		case err != nil && v.Height >= height: // the hash is in the next block
			late++
		}
	}
	if len(holders) == 0 {
		late = 0 // they may stand still
	}
	return holders, late, agreeing, silent
}

// A hashRead is the result of reading the hash of a block from a node.
type hashRead struct {
	node   *Node
	before State // of the node before the read
	hash   string
	err    error
}

// readHashes reads the hash of a block from the nodes of the chain other than except, from all at once.
func (c *Chain) readHashes(ctx context.Context, except *Node, height int64) (all []*hashRead) {
	var reads sync.WaitGroup
	for _, m := range c.all() {
		r := &hashRead{node: m.node, before: m.node.State(), err: upstream.ErrPanicked} // unless the read returns
		if r.node == except || r.before.Refused {
			continue
		}
		all = append(all, r)
		reads.Go(func() { c.guard(func() { r.hash, r.err = r.node.hash(ctx, height) }) })
	}
	reads.Wait()
	return all
}

// lacksBlock reports whether the error of reading a hash means that the node does not have the block.
func lacksBlock(err error) bool {
	if refusal, ok := errors.AsType[*comet.Refusal](err); ok {
		return comet.IsOwnCode(refusal.Code) && !comet.IsShutdownError(refusal.Data)
	}
	return errors.Is(err, ErrNoHash)
}
