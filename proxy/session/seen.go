// Package session remembers which block a client has seen, so that later responses to it are not older.
//
//   - seen.go: on its connection, which an ingress may share among clients;
//   - token.go: by the token from a response, which it sends with a request;
//   - cookie.go: by the cookie in which its browser keeps that token;
//   - clients.go: by the events that were sent to it.
package session

import (
	"sync/atomic"

	"github.com/tipcache/tipcache/upstream/node"
)

type seenBlock struct {
	epoch, height int64
	givenUp       bool // waiting for it has failed, so later requests do not wait
}

// isLater reports whether s is a later block than other, or the same block after a failed wait.
func (s seenBlock) isLater(other seenBlock) bool {
	switch {
	case s.epoch != other.epoch:
		return s.epoch > other.epoch
	case s.height != other.height:
		return s.height > other.height
	default:
		return s.givenUp && !other.givenUp
	}
}

// Seen holds the latest block that a client has seen, for example on its connection. It only increases, by epoch and then by
// height. The zero Seen is ready for use.
type Seen struct{ highest atomic.Pointer[seenBlock] }

func (s *Seen) load() seenBlock {
	if highest := s.highest.Load(); highest != nil {
		return *highest
	}
	return seenBlock{}
}

// lastAdvanced is the newest block that a connection has advanced to. Connections share it, so that a new block needs no
// allocation per connection, and requests on many connections find it in the processor's caches.
var lastAdvanced atomic.Pointer[seenBlock]

func (s *Seen) advance(to seenBlock) {
	for {
		before := s.highest.Load()
		if before != nil && !to.isLater(*before) || to == (seenBlock{}) {
			return
		}
		shared := lastAdvanced.Load()
		if shared == nil || *shared != to {
			shared = new(to)
			lastAdvanced.Store(shared)
		}
		if s.highest.CompareAndSwap(before, shared) {
			return
		}
	}
}

// A Session holds which blocks the client of one request has seen. Its token applies to this request only.
type Session struct {
	Token Token // from the header or the cookie; zero for none
	Least int64 // the response must not be older than this block; 0 for none
	Reset bool  // the token's block was rolled back

	on     *Seen     // nil if the connection is not tracked
	before seenBlock // seen on the connection when the request arrived
	shown  seenBlock // seen with the response
}

// Arrive sets the connection of the request, which may be nil. What other HTTP/2 requests show later does not count.
func (s *Session) Arrive(on *Seen) {
	if s.on = on; on != nil {
		s.before = on.load()
	}
}

// Leave records the block of the response on the connection.
func (s *Session) Leave() {
	if s.on != nil {
		s.on.advance(s.shown)
	}
}

// Seen returns the latest block of an epoch that the client had seen on its connection when the request arrived; 0 for
// none. givenUp means that an earlier wait for it has failed.
func (s *Session) Seen(epoch int64) (height int64, givenUp bool) {
	if s.before.epoch != epoch {
		return 0, false
	}
	return s.before.height, s.before.givenUp
}

// Show records a block that the client is about to see. The latest one counts.
func (s *Session) Show(epoch, height int64) {
	if b := (seenBlock{epoch: epoch, height: height}); b.isLater(s.shown) {
		s.shown = b
	}
}

// GiveUp records that waiting for the block that the client has seen has failed.
func (s *Session) GiveUp() {
	s.before.givenUp = true
	if s.on != nil {
		s.on.advance(s.before)
	}
}

// Resume sets Least and Reset by the token. It must be called again after each wait.
func (s *Session) Resume(h History) {
	s.Reset = s.Token.Replaced(h)
	if s.Least = s.Token.Height; s.Reset {
		s.Least = 0
	}
}

// Wanted returns the block to wait for: the latest one that the client has seen, if it can arrive soon. If there is none
// to wait for, the result is at most the tip.
func (s *Session) Wanted(tip node.Tip) (height int64) {
	if !tip.Known {
		return 0
	}
	if seen, givenUp := s.Seen(tip.Epoch); !givenUp {
		height = seen
	}
	if tip.Allows(s.Least) {
		height = max(height, s.Least)
	}
	return height
}
