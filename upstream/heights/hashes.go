package heights

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// rememberedHashes is how many blocks' hashes are remembered of an epoch.
const rememberedHashes = 4096

// anchors are the hashes of the newest blocks of an epoch and the one before. Reads take no lock.
type anchors struct {
	mu     sync.Mutex // of writers
	high   int64      // guarded by mu
	now    atomic.Pointer[blockHashes]
	before atomic.Pointer[blockHashes]
}

// blockHashes are those of one epoch, by the height modulo their number.
type blockHashes [rememberedHashes]atomic.Pointer[anchor]

// An anchor is the hash of a block.
type anchor struct {
	height int64
	hash   string
}

// at gives the hash of a block, "" if it is not remembered.
func (b *blockHashes) at(height int64) string {
	if b == nil || height <= 0 {
		return ""
	}
	if a := b[height%rememberedHashes].Load(); a != nil && a.height == height {
		return a.hash
	}
	return ""
}

// noteAll remembers hashes by height, unless their epoch is over.
func (a *anchors) noteAll(hashes map[int64]string, current func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !current() {
		return
	}
	for height, hash := range hashes {
		a.note(height, hash)
	}
}

// note remembers the hash of a block. Call with mu held.
func (a *anchors) note(height int64, hash string) {
	if hash == "" || height <= max(0, a.high-rememberedHashes) {
		return
	}
	if a.now.Load() == nil {
		a.now.Store(new(blockHashes))
	}
	a.now.Load()[height%rememberedHashes].Store(&anchor{height, hash})
	a.high = max(a.high, height)
}

// at gives the hash of a block, "" if it is not remembered.
func (a *anchors) at(height int64) string { return a.now.Load().at(height) }

// newest is the highest block whose hash is remembered.
func (a *anchors) newest() (height int64, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.high, a.at(a.high)
}

// atOrBelow is the highest such block up to a height, 0 for none.
func (a *anchors) atOrBelow(height int64) (found int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for height = min(height, a.high); height > max(0, a.high-rememberedHashes); height-- {
		if a.at(height) != "" {
			return height
		}
	}
	return 0
}

// turn forgets the hashes and then begins another epoch, so that nobody compares a block of the new
// epoch with a hash of the old one.
func (a *anchors) turn(begin func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before.Store(a.now.Swap(nil))
	a.high = 0
	begin()
}

// recall remembers hashes of the epoch before, which this replica has not seen.
func (a *anchors) recall(hashes map[int64]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.before.Load() == nil {
		a.before.Store(new(blockHashes))
	}
	before := a.before.Load()
	for height, hash := range hashes {
		if height > 0 && before.at(height) == "" {
			before[height%rememberedHashes].Store(&anchor{height, hash})
		}
	}
}

// HashOf is the hash of a block, in hex, "" if it is not known. That of a block that is above
// the tip is of the chain before it was set back. It takes no lock and does not allocate.
func (c *Chain) HashOf(height int64) string {
	if hash := c.anchors.at(height); hash != "" || height <= c.Tip().Height {
		return hash
	}
	return c.anchors.before.Load().at(height)
}

// Replaced tells whether a block whose hash begins so is none of the chain: its place has another
// one, or had this one before the chain was set back below. It takes no lock and does not allocate.
func (c *Chain) Replaced(height int64, prefix string) bool {
	if known := c.anchors.at(height); known != "" {
		return !begins(known, prefix)
	}
	before := c.anchors.before.Load().at(height)
	return before != "" && begins(before, prefix) && height > c.Tip().Height
}

// begins compares without the case of letters.
func begins(hash, prefix string) bool {
	return len(prefix) <= len(hash) && strings.EqualFold(hash[:len(prefix)], prefix)
}

// Headers of new blocks name the block before. Where none come, its hash is read with each
// height, before that is told of: once for all requests at it.
const (
	maxHashTime = 500 * time.Millisecond // for which a height waits for the hash, half a block at most
	hashTries   = 3                      // that fail in a row; from then on
	rareHashes  = 32                     // the hash is read at every so many'th block
	passedOver  = 4                      // blocks whose hashes are read, too, where more than one has come
)

// claimHashed claims the newest block with the hash of the one before.
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

func (f *restFollower) blockHash(ctx context.Context, height int64) (string, error) {
	return f.node.Reader.BlockHash(ctx, height)
}

// A hasher is a source of heights that can tell which blocks they are.
type hasher interface {
	// blockHash reads the hash of a block, "" where headers tell it, or the node never does.
	blockHash(ctx context.Context, height int64) (string, error)
	// isOurs says whether a block with such a hash, "" for one that is not known, is of our chain.
	isOurs(ctx context.Context, epoch, height int64, hash string) bool
}
