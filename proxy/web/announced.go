package web

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// announced are the blocks that clients were told of by events. What such a client reads next, on
// whatever connection, is to be no older: it may not look at the marks of stale answers.
type announced struct {
	some atomic.Bool // spares those who read a lock where nobody listens

	mu sync.RWMutex
	by map[string]*Listener // network
}

// A Listener is a client that is told of blocks by events, over one connection or several.
type Listener struct {
	of      *announced
	network string
	open    int // connections; guarded by of.mu
	height  atomic.Int64
	awaited atomic.Int64 // a block that was waited for in vain
}

// Listen notes that a client is told of blocks over the connection of its request. Close must be
// called in the end.
func (s *Stack) Listen(r *http.Request) *Listener {
	network := s.ClientNetwork(r)
	h := &s.announced
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.by[network]
	if l == nil {
		if h.by == nil {
			h.by = map[string]*Listener{}
		}
		l = &Listener{of: h, network: network}
		h.by[network] = l
	}
	l.open++
	h.some.Store(true)
	return l
}

// Announce notes the block of an event before that is sent.
func (l *Listener) Announce(height int64) {
	for {
		before := l.height.Load()
		if height <= before || l.height.CompareAndSwap(before, height) {
			return
		}
	}
}

// Close ends a connection's part.
func (l *Listener) Close() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.open--; l.open == 0 {
		delete(l.of.by, l.network)
		l.of.some.Store(len(l.of.by) > 0)
	}
}

// Announced is the newest block that a request's client was told of by an event, 0 for none. Where
// that was awaited in vain, waiting for it is of no use.
func (s *Stack) Announced(r *http.Request) (height int64, awaited bool) {
	l := s.listener(r)
	if l == nil {
		return 0, false
	}
	height = l.height.Load()
	return height, l.awaited.Load() >= height
}

// AwaitedAnnounced notes that a block which a request's client was told of was awaited in vain.
func (s *Stack) AwaitedAnnounced(r *http.Request, height int64) {
	if l := s.listener(r); l != nil {
		l.awaited.Store(height)
	}
}

// listener is the one that a request's client is, nil for none.
func (s *Stack) listener(r *http.Request) *Listener {
	if !s.announced.some.Load() {
		return nil
	}
	network := s.ClientNetwork(r)
	s.announced.mu.RLock()
	defer s.announced.mu.RUnlock()
	return s.announced.by[network]
}
