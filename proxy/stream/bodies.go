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

// What is held beside texts, in bytes.
const (
	topicWeight = 12 << 10 // a topic, its goroutine, and events that are rendered
	bodyWeight  = 512
)

// errNoRoom is told of an answer that is too large to be streamed now.
var errNoRoom = &failure.Failure{Status: http.StatusServiceUnavailable, Public: "the answers that are streamed take all memory that they may", Expected: true}

// bodies are the texts of answers, equal ones once, within the budget.
type bodies struct {
	budget *account.Account
	seed   maphash.Seed
	mu     sync.Mutex
	byHash map[uint64]*body
}

// A body is held by the topics that tell it, and by clients while they write it.
type body struct {
	bodies *bodies
	text   []byte
	hash   uint64
	held   atomic.Int64 // how often; once it is 0 it stays

	mu   sync.Mutex // held while it is compressed
	made []byte     // the text in blocks of deflate; nil: not asked for yet, or there is no room for it
}

// keep gives the body of a text, held once for the caller. The error is errNoRoom.
func (bs *bodies) keep(text []byte) (*body, error) {
	hash := maphash.Bytes(bs.seed, text)
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b := bs.byHash[hash]; b != nil && bytes.Equal(b.text, text) && b.hold() {
		return b, nil
	}
	b := &body{bodies: bs, text: text, hash: hash}
	if !bs.budget.Reserve(account.Events, b.weight()) {
		return nil, errNoRoom
	}
	b.held.Store(1)
	bs.byHash[hash] = b
	return b, nil
}

// deflated is the text in blocks of deflate, made once for all events that hold the body, as long
// as there is room for it.
func (b *body) deflated() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != nil {
		return b.made
	}
	made := deflate(b.text)
	if b.bodies.budget.Reserve(account.Events, int64(cap(made))) {
		b.made = made
	}
	return made
}

func (b *body) weight() int64 { return int64(cap(b.text)) + bodyWeight }

// hold keeps the body for a client that writes it, until release. It is not ok where no event holds
// the body any more. Events that are no answers have none, and need none.
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

// release undoes hold and keep.
func (b *body) release() {
	if b == nil || b.held.Add(-1) > 0 {
		return
	}
	b.bodies.mu.Lock()
	if b.bodies.byHash[b.hash] == b {
		delete(b.bodies.byHash, b.hash)
	}
	b.bodies.mu.Unlock()
	b.bodies.budget.Release(account.Events, b.weight()+int64(cap(b.made)))
}
