package node

import (
	"context"
	"sync"
)

// rememberedHashes is how many blocks' hashes are remembered.
const rememberedHashes = 256

// anchors are the hashes of the newest blocks of an epoch.
type anchors struct {
	mu     sync.Mutex
	hashes map[int64]string
	high   int64
}

// note remembers the hash of a block.
func (a *anchors) note(height int64, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if hash == "" || height <= a.high-rememberedHashes {
		return
	}
	if a.hashes == nil {
		a.hashes = map[int64]string{}
	}
	a.hashes[height] = hash
	a.high = max(a.high, height)
	delete(a.hashes, height-rememberedHashes)
}

// at gives the hash of a block, "" if it is not remembered.
func (a *anchors) at(height int64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hashes[height]
}

// newest is the highest block whose hash is remembered.
func (a *anchors) newest() (height int64, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.high, a.hashes[a.high]
}

// atOrBelow is the highest such block up to a height, 0 for none.
func (a *anchors) atOrBelow(height int64) (found int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for known := range a.hashes {
		if known <= height {
			found = max(found, known)
		}
	}
	return found
}

func (a *anchors) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hashes, a.high = nil, 0
}

// hashOf is the hash that our nodes have of a block, "" where none can be asked.
func (p *Pool) hashOf(ctx context.Context, height int64) string {
	if hash := p.anchors.at(height); hash != "" {
		return hash
	}
	for _, f := range p.followers {
		if v := f.endpoint.look(); v.foreign() || v.cometDown || v.unseen {
			continue
		}
		if hash, err := f.endpoint.comet.Hash(ctx, height); err == nil {
			return hash
		}
	}
	return ""
}

// recognize compares what an endpoint says of a block with what is remembered,
// and says whether it is on our chain. Another hash is another chain: if another
// node still has the block that is remembered, the endpoint is not used, else
// the chain itself was reset.
func (f *follower) recognize(ctx context.Context, epoch, height int64, hash string) bool {
	known := f.pool.anchors.at(height)
	if known == "" {
		if f.fork == 0 {
			return true
		}
		height = f.fork // blocks that only this node has say nothing of the fork
		known = f.pool.anchors.at(height)
	} else if known == hash || hash == "" {
		f.rejoin()
		return true
	}
	if known != "" && f.pool.othersHave(ctx, f, height, known) {
		f.excludeFork(ctx, height)
		return false
	}
	f.rejoin()
	if known != "" {
		f.pool.turn(ctx, epoch, "a block has another hash than before")
	}
	return true
}

// recognizeNewest asks a node that may have been restarted for a block that is
// remembered.
func (f *follower) recognizeNewest(ctx context.Context) {
	epoch := f.pool.Tip().Epoch
	height := f.pool.anchors.atOrBelow(f.endpoint.look().height - 1)
	if height == 0 {
		return
	}
	if hash, err := f.endpoint.comet.Hash(ctx, height); err == nil {
		f.recognize(ctx, epoch, height, hash)
	}
}

// excludeFork keeps an endpoint from being read: its answers are of another chain.
func (f *follower) excludeFork(ctx context.Context, height int64) {
	if f.fork == 0 {
		f.log.Error("node is on another fork of the chain and is not used", "block", height)
	}
	f.fork = height
	f.endpoint.update(func(v *view) { v.forked, v.height = true, 0 })
	f.pool.tip.PutAside(f.source)
	f.pool.stirred(ctx)
}

// rejoin ends that.
func (f *follower) rejoin() {
	if f.fork > 0 {
		f.log.Info("node is on our chain again")
	}
	f.fork = 0
	f.endpoint.update(func(v *view) { v.forked = false })
}

// othersHave says whether another node has a block with this hash.
func (p *Pool) othersHave(ctx context.Context, except *follower, height int64, hash string) bool {
	for _, f := range p.followers {
		if v := f.endpoint.look(); f == except || v.foreign() || v.cometDown || v.unseen {
			continue
		}
		if got, err := f.endpoint.comet.Hash(ctx, height); err == nil && got == hash {
			return true
		}
	}
	return false
}
