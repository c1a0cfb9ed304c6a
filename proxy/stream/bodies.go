package stream

import (
	"bytes"
	"hash/maphash"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// Memory reserved in addition to the texts, in bytes. A text that shares the bytes of a cache entry is reserved, too.
const (
	topicWeight = 12 << 10 // a topic, its goroutine and rendered events
	bodyWeight  = 512
)

// errNoMemory is sent instead of an answer that does not fit into the memory budget.
var errNoMemory = &failure.Failure{Status: http.StatusServiceUnavailable, Public: "streamed answers use all of the memory reserved for them", Expected: true}

// bodies stores the texts of answers within the budget. Equal texts are stored once.
type bodies struct {
	budget *account.Account
	seed   maphash.Seed
	mu     sync.Mutex
	byHash map[uint64]*body
}

// body is the text of an answer. Topics hold it, and clients while they write it.
type body struct {
	bodies *bodies
	text   []byte
	hash   uint64
	held   atomic.Int64 // number of holders; never rises again after reaching 0

	mu         sync.Mutex // held during compression
	compressed []byte     // text as deflate blocks; nil if not compressed yet or over the budget
}

// intern returns the body with the given text, held once for the caller, or errNoMemory.
func (bs *bodies) intern(text []byte) (*body, error) {
	hash := maphash.Bytes(bs.seed, text)
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b := bs.byHash[hash]; b != nil && bytes.Equal(b.text, text) && b.hold() {
		return b, nil
	}
	b := &body{bodies: bs, text: text, hash: hash}
	if !bs.budget.Reserve(account.Events, b.weight()) {
		return nil, errNoMemory
	}
	b.held.Store(1)
	bs.byHash[hash] = b
	return b, nil
}

// deflated returns the text as deflate blocks, which are kept for all events with this body, or nil if the budget has no room
// for them.
func (b *body) deflated() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.compressed == nil {
		blocks := deflate(b.text)
		if !b.bodies.budget.Reserve(account.Events, int64(cap(blocks))) {
			return nil
		}
		b.compressed = blocks
	}
	return b.compressed
}

func (b *body) weight() int64 { return int64(cap(b.text)) + bodyWeight }

// hold keeps the body until release. It returns false if the body has been released by all holders. A nil body
// belongs to an event without an answer and can always be held.
func (b *body) hold() (ok bool) {
	if b == nil {
		return true
	}
	for {
		n := b.held.Load()
		if n == 0 {
			return false
		}
		if b.held.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release undoes hold or intern.
func (b *body) release() {
	if b == nil || b.held.Add(-1) > 0 {
		return
	}
	b.bodies.mu.Lock()
	if b.bodies.byHash[b.hash] == b {
		delete(b.bodies.byHash, b.hash)
	}
	b.bodies.mu.Unlock()
	b.bodies.budget.Release(account.Events, b.weight()+int64(cap(b.compressed)))
}
