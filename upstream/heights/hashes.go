package heights

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// rememberedHashes is the number of hashes kept per epoch.
const rememberedHashes = 4096

// anchors holds the hashes of the newest blocks of the current and the previous epoch. Reads take no lock.
type anchors struct {
	mu       sync.Mutex // guards writes
	high     int64      // highest block of the current epoch; guarded by mu
	current  atomic.Pointer[blockHashes]
	previous atomic.Pointer[blockHashes]
}

// blockHashes holds the hashes of one epoch, indexed by height modulo rememberedHashes.
type blockHashes [rememberedHashes]atomic.Pointer[anchor]

// An anchor is the hash of a block.
type anchor struct {
	height int64
	hash   string
}

// at returns the hash of a block, or "" if it is unknown.
func (b *blockHashes) at(height int64) string {
	if b == nil || height <= 0 {
		return ""
	}
	if a := b[height%rememberedHashes].Load(); a != nil && a.height == height {
		return a.hash
	}
	return ""
}

// addAll adds hashes by height if their epoch is the current one.
func (a *anchors) addAll(hashes map[int64]string, isCurrent func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !isCurrent() {
		return
	}
	for height, hash := range hashes {
		a.add(height, hash)
	}
}

// add adds the hash of a block. The caller must hold mu.
func (a *anchors) add(height int64, hash string) {
	if hash == "" || height <= max(0, a.high-rememberedHashes) {
		return
	}
	if a.current.Load() == nil {
		a.current.Store(new(blockHashes))
	}
	a.current.Load()[height%rememberedHashes].Store(&anchor{height, hash})
	a.high = max(a.high, height)
}

// at returns the hash of a block, or "" if it is unknown.
func (a *anchors) at(height int64) string { return a.current.Load().at(height) }

// newest returns the highest block with a known hash.
func (a *anchors) newest() (height int64, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.high, a.at(a.high)
}

// atOrBelow returns the highest block with a known hash at or below a height, or 0.
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

// beginEpoch makes the current hashes the previous ones, and then calls begin. Because of this order,
// blocks of the new epoch are not compared with hashes of the old one.
func (a *anchors) beginEpoch(begin func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.previous.Store(a.current.Swap(nil))
	a.high = 0
	begin()
}

// addPrevious adds hashes of the previous epoch that this replica has not read.
func (a *anchors) addPrevious(hashes map[int64]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.previous.Load() == nil {
		a.previous.Store(new(blockHashes))
	}
	previous := a.previous.Load()
	for height, hash := range hashes {
		if height > 0 && previous.at(height) == "" {
			previous[height%rememberedHashes].Store(&anchor{height, hash})
		}
	}
}

// HashOf returns the hash of a block in hex, or "" if it is unknown. For a block above the tip it returns the
// hash from before the rollback. It takes no lock and does not allocate.
func (c *Chain) HashOf(height int64) string {
	if hash := c.anchors.at(height); hash != "" || height <= c.Tip().Height {
		return hash
	}
	return c.anchors.previous.Load().at(height)
}

// Replaced reports whether the block with this height and hash prefix is no longer part of the chain: the height has
// another block, or the chain was rolled back below it. It takes no lock and does not allocate.
func (c *Chain) Replaced(height int64, prefix string) bool {
	if known := c.anchors.at(height); known != "" {
		return !hasPrefixFold(known, prefix)
	}
	previous := c.anchors.previous.Load().at(height)
	return previous != "" && hasPrefixFold(previous, prefix) && height > c.Tip().Height
}

// hasPrefixFold is a case-insensitive strings.HasPrefix.
func hasPrefixFold(hash, prefix string) bool {
	return len(prefix) <= len(hash) && strings.EqualFold(hash[:len(prefix)], prefix)
}

// Headers of new blocks contain the parent's hash. Without headers, a source reads this hash with each new
// height before it claims the height.
const (
	hashTimeout = 500 * time.Millisecond // for the read of a hash; half a block if that is less
	hashTries   = 3                      // consecutive failures before hashes are read only at every rareHashes-th block
	rareHashes  = 32
	maxMissing  = 4 // maximum number of missed blocks whose hashes are all read
)

// claimHashed makes a claim with the hashes of the blocks before it, unless they belong to another chain.
func (s *heightSource) claimHashed(ctx context.Context, h hasher, claim tip.Claim) {
	epoch, parent, hashes := s.chain.Tip().Epoch, claim.Height-1, map[int64]string{}
	ours := h.isOurs(ctx, epoch, parent, "")
	for _, height := range s.chain.anchors.missing(parent) {
		hashes[height] = s.readHash(ctx, h, height)
		if ours = h.isOurs(ctx, epoch, height, hashes[height]); !ours {
			break
		}
	}
	if ours {
		s.claim(ctx, epoch, claim, hashes)
	}
}

// missing returns the heights up to last whose hashes have to be read. If blocks were missed, or last is below
// the newest known hash, it also returns a known height, whose hash shows whether the chain was rolled back.
func (a *anchors) missing(last int64) (heights []int64) {
	newest, _ := a.newest()
	switch {
	case last == newest:
		return nil
	case newest == 0 || last <= newest+1:
		return []int64{last}
	case last > newest+maxMissing:
		return []int64{newest, last}
	}
	for height := newest; height <= last; height++ {
		heights = append(heights, height)
	}
	return heights
}

// readHash reads the hash of a block. It returns "" if the node does not return it in time.
func (s *heightSource) readHash(ctx context.Context, h hasher, height int64) string {
	if height <= 0 || s.hashless >= hashTries && height%rareHashes != 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, min(hashTimeout, s.pollInterval()/2))
	defer cancel()
	hash, err := h.blockHash(ctx, height)
	if s.hashless++; err == nil {
		s.hashless = 0
	}
	return hash
}

func (f *rpcFollower) blockHash(ctx context.Context, height int64) (string, error) {
	if f.node.State().Connected {
		return "", nil
	}
	return f.node.Comet.Hash(ctx, height)
}

func (f *restFollower) blockHash(ctx context.Context, height int64) (string, error) {
	return f.node.Reader.BlockHash(ctx, height)
}

// A hasher is a height source that can also read block hashes.
type hasher interface {
	// blockHash reads the hash of a block. It returns "" if headers contain it, or if the node never returns it.
	blockHash(ctx context.Context, height int64) (string, error)
	// isOurs reports whether a block with this hash belongs to the chain. The hash may be "".
	isOurs(ctx context.Context, epoch, height int64, hash string) bool
}
