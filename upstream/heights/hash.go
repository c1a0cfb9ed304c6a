package heights

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// Headers of new blocks name the block before. Where none come, its hash is read with each
// height, before that is told of: once for all requests at it.
const (
	maxHashTime = 500 * time.Millisecond // for which a height waits for the hash, half a block at most
	hashTries   = 3                      // that fail in a row; from then on
	rareHashes  = 32                     // the hash is read at every so many'th block
	passedOver  = 4                      // blocks whose hashes are read, too, where more than one has come
)

// A hasher is a source of heights that can tell which blocks they are.
type hasher interface {
	// blockHash reads the hash of a block, "" where headers tell it, or the node never does.
	blockHash(ctx context.Context, height int64) (string, error)
	// isOurs says whether a block with such a hash, "" for one that is not known, is of our chain.
	isOurs(ctx context.Context, epoch, height int64, hash string) bool
}

// claimHashed takes in what the source names as the newest block, with the hash of the block
// before.
func (s *claimant) claimHashed(ctx context.Context, h hasher, said tip.Claim) {
	epoch, before, hashes := s.chain.Tip().Epoch, said.Height-1, map[int64]string{}
	ours := h.isOurs(ctx, epoch, before, "")
	for _, height := range s.chain.anchors.missing(before) {
		hashes[height] = s.readHash(ctx, h, height)
		if ours = h.isOurs(ctx, epoch, height, hashes[height]); !ours {
			break
		}
	}
	if ours {
		s.claim(ctx, epoch, said, hashes)
	}
}

// missing are the blocks to be read where the chain is known up to one: those since the newest
// that is remembered. That one shows whether the chain was set back meanwhile, where some were
// passed over; so does a block below it.
func (a *anchors) missing(last int64) (heights []int64) {
	newest, _ := a.newest()
	switch {
	case last == newest:
		return nil
	case newest == 0 || last <= newest+1:
		return []int64{last}
	case last > newest+passedOver:
		return []int64{newest, last}
	}
	for height := newest; height <= last; height++ {
		heights = append(heights, height)
	}
	return heights
}

// readHash reads the hash of a block, "" where the node does not tell it in time.
func (s *claimant) readHash(ctx context.Context, h hasher, height int64) string {
	if height <= 0 || s.hashless >= hashTries && height%rareHashes != 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, min(maxHashTime, s.pollInterval()/2))
	defer cancel()
	hash, err := h.blockHash(ctx, height)
	if s.hashless++; err == nil {
		s.hashless = 0
	}
	return hash
}

func (f *follower) blockHash(ctx context.Context, height int64) (string, error) {
	if f.node.Look().Connected {
		return "", nil
	}
	return f.node.Comet.Hash(ctx, height)
}

func (f *follower) isOurs(ctx context.Context, epoch, height int64, hash string) bool {
	if hash == "" {
		return f.fork == 0
	}
	return f.recognize(ctx, epoch, height, hash)
}

func (f *restFollower) blockHash(ctx context.Context, height int64) (string, error) {
	return f.node.Reader.BlockHash(ctx, height)
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
