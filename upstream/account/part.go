package account

import (
	"errors"
	"math"
	"sync"
)

// Errors of reading a body.
var (
	ErrFull     = errors.New("memory for bodies is in use")
	ErrShare    = errors.New("client uses its share of the memory for bodies")
	ErrTooLarge = errors.New("body exceeds the size limit")
)

// A Part is a limited part of an account. While more than half of it is in use, a client cannot reserve more than its
// share, but it keeps what it has. A nil Part has no limit. It is safe for concurrent use.
type Part struct {
	account *Account
	kind    Kind
	limit   int64
	share   int64

	mu   sync.Mutex
	used int64
	held map[string]int64 // by client
}

// Part returns a part of limit bytes. While more than half of it is in use, a client can use at most share bytes.
func (a *Account) Part(k Kind, limit, share int64) *Part {
	return &Part{account: a, kind: k, limit: limit, share: share, held: map[string]int64{}}
}

// Upstream returns the part for upstream bodies. It is limited to three quarters, so that memory remains for clients.
func (a *Account) Upstream() *Part { return a.upstream }

// Events returns the part for event streams, polls and subscriptions: a quarter of the account. A client's share is a quarter
// of the part.
func (a *Account) Events() *Part {
	if a == nil {
		return nil
	}
	return a.events
}

// A Hold is the reserved memory of one body or of several answers. It is safe for concurrent use, except while it reads.
type Hold struct {
	part   *Part
	client string
	exempt bool
	shared bool // the bytes are reserved by another Hold, and only count against the client's share
	held   int64
}

// Open returns an empty Hold for a client. The share does not apply to exempt clients, which represent many clients.
func (p *Part) Open(client string, exempt bool) *Hold {
	return &Hold{part: p, client: client, exempt: exempt}
}

// OpenShared returns an empty Hold for bytes that another Hold has reserved. They only count against the client's share.
func (p *Part) OpenShared(client string, exempt bool) *Hold {
	return &Hold{part: p, client: client, exempt: exempt, shared: true}
}

// Fits reports whether n bytes can be reserved if nothing else is.
func (p *Part) Fits(n int64) bool { return p == nil || n <= p.limit }

// Free returns the number of bytes that can be reserved now, at most maxBytes. A client's share may be smaller.
func (p *Part) Free(maxBytes int64) int64 {
	if p == nil {
		return maxBytes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.limit - p.used
	if a := p.account; a != nil {
		free = min(free, a.limitOf(p.kind)-a.Used())
	}
	return max(0, min(free, maxBytes))
}

// Take reserves n more bytes. If it fails with ErrShare or ErrFull, it reserves nothing.
func (h *Hold) Take(n int) error { return h.Replace(n, 0) }

// Replace is Take for bytes that replace others of the same client, which the caller releases at once if it succeeds. The
// replaced bytes do not count against the limit and the share of the part.
func (h *Hold) Replace(n, replaced int) error { return h.take(int64(n), int64(replaced), 4) }

// Start is Take for something that will need more memory while it exists. It leaves a quarter of each limit free.
func (h *Hold) Start(n int) error { return h.take(int64(n), 0, 3) }

// take reserves more bytes up to the given number of quarters of each limit.
func (h *Hold) take(more, replaced, quarters int64) error {
	p := h.part
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	reserved := h.reserved(more)
	switch used := p.used + reserved - replaced; {
	case used > (p.limit/2+1)*quarters/4 && !h.exempt && p.held[h.client]+more-replaced > p.share*quarters/4:
		p.account.countRefusal(p.kind)
		return ErrShare
	case used > p.limit*quarters/4:
		p.account.countRefusal(p.kind)
		p.wake(more)
		return ErrFull
	case !p.account.Reserve(p.kind, reserved):
		return ErrFull
	}
	h.add(more)
	return nil
}

// reserved returns how many of n bytes the Hold reserves itself.
func (h *Hold) reserved(n int64) int64 {
	if h.shared {
		return 0
	}
	return n
}

// add changes the counts. The caller must hold the part's mu.
func (h *Hold) add(n int64) {
	p := h.part
	h.held += n
	p.used += h.reserved(n)
	if p.held[h.client] += n; p.held[h.client] == 0 {
		delete(p.held, h.client)
	}
}

// Release releases n bytes, or all if fewer are reserved.
func (h *Hold) Release(n int64) {
	p := h.part
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, h.held)
	p.account.Release(p.kind, h.reserved(n))
	h.add(-n)
}

// Move counts the bytes against another client, whose share it may exceed.
func (h *Hold) Move(client string, exempt bool) {
	p := h.part
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := h.held
	h.add(-n)
	h.client, h.exempt = client, exempt
	h.add(n)
}

// Bytes returns the number of bytes that it holds.
func (h *Hold) Bytes() int64 {
	p := h.part
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.held
}

// Close releases all bytes.
func (h *Hold) Close() { h.Release(math.MaxInt64) }
