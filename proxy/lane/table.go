package lane

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Bounds of what is remembered.
const (
	maxRequest   = 4 << 10 // bytes of one request
	tableBytes   = 8 << 20
	knownWeight  = 640 // bytes of a shortcut and its place, or so, beside the request
	tableShards  = 16
	sightedSlots = 8 << 10
)

// A table has the requests that are remembered, by the hash of their bytes.
// Forgetting replaces it, so whoever holds on to the one before remembers in vain.
type table struct {
	shards [tableShards]shard
	// The hashes seen last. A request is remembered when it comes for the second
	// time: a flood of requests that differ would else put out those that come back.
	sighted [sightedSlots]atomic.Uint64
}

type shard struct {
	mu    sync.RWMutex
	known map[uint64]*knownRequest
	bytes int
}

// A knownRequest is one that a shortcut answers.
type knownRequest struct {
	text     []byte
	cuts     cuts
	post     bool
	shortcut Shortcut
}

func (k *knownRequest) weight() int { return knownWeight + len(k.text) }

// equals compares all bytes but the values that were cut out of both.
func (k *knownRequest) equals(request []byte, c *cuts) bool {
	if k.cuts.n != c.n || k.cuts.id != c.id {
		return false
	}
	mine, its := 0, 0
	for i, value := range c.at[:c.n] {
		own := k.cuts.at[i]
		if !bytes.Equal(k.text[mine:own.from], request[its:value.from]) {
			return false
		}
		mine, its = own.to, value.to
	}
	return bytes.Equal(k.text[mine:], request[its:])
}

func newTable() *table {
	t := &table{}
	for i := range t.shards {
		t.shards[i].known = map[uint64]*knownRequest{}
	}
	return t
}

// A look is what is found out about bytes that may be a request.
type look struct {
	table *table // that was in force
	hash  uint64
	cuts  cuts
	known *knownRequest // nil: none
}

// look looks bytes up.
func (l *Lane) look(request []byte) look {
	found := look{table: l.table.Load(), cuts: cuts{id: -1}}
	if len(request) > maxRequest {
		return found
	}
	found.cuts = cut(request)
	found.hash = l.hash(request, &found.cuts)
	s := found.table.shard(found.hash)
	s.mu.RLock()
	known := s.known[found.hash]
	s.mu.RUnlock()
	if known != nil && known.equals(request, &found.cuts) {
		found.known = known
	}
	return found
}

func (l *Lane) hash(request []byte, c *cuts) uint64 {
	if c.n == 0 {
		return maphash.Bytes(l.seed, request)
	}
	var h maphash.Hash
	h.SetSeed(l.seed)
	from := 0
	for _, value := range c.at[:c.n] {
		_, _ = h.Write(request[from:value.from])
		_ = h.WriteByte(0) // where a value was: one that is empty is none, and not cut
		from = value.to
	}
	_, _ = h.Write(request[from:])
	return h.Sum64()
}

func (t *table) shard(hash uint64) *shard { return &t.shards[hash>>32%tableShards] }

// again tells whether a request of the hash came lately, and takes note of it.
func (t *table) again(hash uint64) bool {
	slot := &t.sighted[hash%sightedSlots]
	if slot.Load() == hash {
		return true
	}
	slot.Store(hash)
	return false
}

// remember keeps a request under its bytes.
func (l *Lane) remember(t *table, request []byte, s Shortcut) {
	k := &knownRequest{text: request, cuts: cut(request), post: isPost(request), shortcut: s}
	hash := l.hash(request, &k.cuts)
	t.shard(hash).put(hash, k)
}

// put makes room for a request, at the cost of any other ones: those that come
// often are back soon.
func (s *shard) put(hash uint64, k *knownRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.known[hash]; old != nil {
		s.bytes -= old.weight()
	}
	s.known[hash] = k
	s.bytes += k.weight()
	for other, old := range s.known {
		if s.bytes <= tableBytes/tableShards {
			return
		}
		if other != hash {
			delete(s.known, other)
			s.bytes -= old.weight()
		}
	}
}

func (t *table) bytes() (sum int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		sum += s.bytes
		s.mu.RUnlock()
	}
	return sum
}

func isPost(request []byte) bool { return bytes.HasPrefix(request, []byte("POST ")) }
