package heights

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

const (
	rememberedHashes = 4096 // number of hashes kept per epoch
	maxHash          = 64   // length of a hash in hex; a node could fill the memory with longer ones
)

// A hashTable holds the hashes of the newest blocks of the current and the previous epoch. Reads take no lock.
type hashTable struct {
	mu       sync.Mutex // guards writes
	high     int64      // highest block of the current epoch; guarded by mu
	current  atomic.Pointer[blockHashes]
	previous atomic.Pointer[blockHashes]
}

// blockHashes holds the hashes of one epoch, indexed by height modulo rememberedHashes.
type blockHashes [rememberedHashes]atomic.Pointer[knownHash]

type knownHash struct {
	height int64
	hash   string
	by     *heightSource // set while only the headers of its current subscription have had this hash, and other nodes stream, too
}

// at returns the hash of a block, or "" if it is unknown.
func (b *blockHashes) at(height int64) string { return b.known(height).hash }

// known returns what is known of a block; zero for nothing.
func (b *blockHashes) known(height int64) knownHash {
	if b == nil || height <= 0 {
		return knownHash{}
	}
	if k := b[height%rememberedHashes].Load(); k != nil && k.height == height {
		return *k
	}
	return knownHash{}
}

// addAll adds hashes by height if their epoch is the current one. It calls isCurrent under mu, so that no epoch begins
// meanwhile. by is as in knownHash.
func (t *hashTable) addAll(hashes map[int64]string, by *heightSource, isCurrent func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isCurrent() {
		return
	}
	for height, hash := range hashes {
		t.add(height, hash, by)
	}
}

// add adds the hash of a block. The caller must hold mu.
func (t *hashTable) add(height int64, hash string, by *heightSource) {
	if hash == "" || len(hash) > maxHash || height <= max(0, t.high-rememberedHashes) {
		return
	}
	if t.current.Load() == nil {
		t.current.Store(new(blockHashes))
	}
	if before := t.current.Load().known(height); before.hash == hash && before.by != by {
		by = nil // another source confirms it
	}
	t.current.Load()[height%rememberedHashes].Store(&knownHash{height, hash, by})
	t.high = max(t.high, height)
}

func (t *hashTable) at(height int64) string { return t.current.Load().at(height) }

// newest returns the highest block with a known hash, or 0.
func (t *hashTable) newest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.high
}

// confirmed returns the highest block with a hash that does not depend on the headers of one node, or 0.
func (t *hashTable) confirmed() (height int64, hash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for height = t.high; height > max(0, t.high-rememberedHashes); height-- {
		if k := t.current.Load().known(height); k.hash != "" && k.by == nil {
			return height, k.hash
		}
	}
	return 0, ""
}

// endSubscription makes the hashes that only the headers of a source have had count as confirmed: the node may be restarted with
// another chain now.
func (t *hashTable) endSubscription(of *heightSource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for height := t.high; height > max(0, t.high-rememberedHashes); height-- {
		if k := t.current.Load().known(height); k.by == of {
			k.by = nil
			t.current.Load()[height%rememberedHashes].Store(&k)
		}
	}
}

// atOrBelow returns the highest block with a known hash at or below a height, or 0.
func (t *hashTable) atOrBelow(height int64) (found int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for height = min(height, t.high); height > max(0, t.high-rememberedHashes); height-- {
		if t.at(height) != "" {
			return height
		}
	}
	return 0
}

// beginEpoch makes the current hashes the previous ones, and then calls begin. Because of this order,
// blocks of the new epoch are not compared with hashes of the old one.
func (t *hashTable) beginEpoch(begin func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.previous.Store(t.current.Swap(nil))
	t.high = 0
	begin()
}

// addPrevious adds hashes of the previous epoch that this replica has not read.
func (t *hashTable) addPrevious(hashes map[int64]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.previous.Load() == nil {
		t.previous.Store(new(blockHashes))
	}
	previous := t.previous.Load()
	for height, hash := range hashes {
		if height > 0 && previous.at(height) == "" {
			previous[height%rememberedHashes].Store(&knownHash{height: height, hash: hash})
		}
	}
}

// HashOf returns the hash of a block in hex, or "" if it is unknown. For a block above the tip it returns the
// hash from before the rollback. It takes no lock and does not allocate.
func (c *Chain) HashOf(height int64) string {
	if hash := c.hashes.at(height); hash != "" || height <= c.Tip().Height {
		return hash
	}
	return c.hashes.previous.Load().at(height)
}

// Replaced reports whether the block with this height and hash prefix is no longer part of the chain: the height has
// another block, or the chain was rolled back below it. It takes no lock and does not allocate.
func (c *Chain) Replaced(height int64, prefix string) bool {
	if known := c.hashes.at(height); known != "" {
		return !hasPrefixFold(known, prefix)
	}
	previous := c.hashes.previous.Load().at(height)
	return previous != "" && hasPrefixFold(previous, prefix) && height > c.Tip().Height
}

// hasPrefixFold is a case-insensitive strings.HasPrefix.
func hasPrefixFold(hash, prefix string) bool {
	return len(prefix) <= len(hash) && strings.EqualFold(hash[:len(prefix)], prefix)
}

// Headers of new blocks contain the parent's hash. Without headers, a source reads this hash with each new
// height before it claims the height.
const (
	hashTimeout = 500 * time.Millisecond // for the read of a hash; half a block's time if that is less
	hashTries   = 3                      // consecutive failures before hashes are read only at every rareHashes-th block
	rareHashes  = 32
	maxMissing  = 4 // maximum number of missed blocks whose hashes are all read
)

// A blockHash reads the hash of a block. It returns "" if headers contain it, or if the node never returns it.
type blockHash func(ctx context.Context, height int64) (string, error)

// claimHashed makes a claim with the hashes of the blocks before it, unless they belong to another chain.
func (s *heightSource) claimHashed(ctx context.Context, read blockHash, claim tip.Claim) {
	epoch, parent, hashes := s.chain.Tip().Epoch, claim.Height-1, map[int64]string{}
	ours := s.checkHash(ctx, epoch, parent, "") // false for a node on a fork
	compared := len(s.chain.all()) == 1 || s.node.State().Height == claim.Height
	for _, height := range s.chain.hashes.missing(parent, compared) {
		hashes[height] = s.readHash(ctx, read, height)
		if ours = s.checkHash(ctx, epoch, height, hashes[height]); !ours {
			break
		}
	}
	if ours {
		s.claim(ctx, epoch, claim, hashes, nil)
	}
}

// missing returns the heights up to last whose hashes have to be read. They begin with the newest known one, whose hash shows
// whether the chain was rolled back, or the node is on a fork. If last is below that, its hash shows the same. If no block was
// missed, that hash is not read again. compared reports that it need not be: the chain has only this node, or the node's
// newest hash was compared before.
func (t *hashTable) missing(last int64, compared bool) (heights []int64) {
	newest := t.newest()
	switch {
	case last == newest && compared:
		return nil
	case newest == 0 || last <= newest || last == newest+1 && compared:
		return []int64{last}
	case last > newest+maxMissing:
		return []int64{newest, last}
	}
	for height := newest; height <= last; height++ {
		heights = append(heights, height)
	}
	return heights
}

// readHash reads the hash of a block. It returns "" if the node does not return it in time, or if the last hashTries reads
// failed and this is not a rareHashes-th block.
func (s *heightSource) readHash(ctx context.Context, read blockHash, height int64) string {
	if height <= 0 || s.hashless >= hashTries && height%rareHashes != 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, min(hashTimeout, s.pollInterval()/2))
	defer cancel()
	hash, err := read(ctx, height)
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
