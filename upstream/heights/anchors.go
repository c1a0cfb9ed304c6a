package heights

import "sync"

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
