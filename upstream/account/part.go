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
// share, but it keeps what it has. A nil
// Part has no limit. It is safe for concurrent use.
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

// A Hold is the reserved memory of one body or of several answers. It is safe for concurrent use, except while it reads.
type Hold struct {
	part   *Part
	client string
	exempt bool
	held   int64
}

// Open returns an empty Hold for a client. The share does not apply to exempt clients, which represent many clients.
func (p *Part) Open(client string, exempt bool) *Hold {
	return &Hold{part: p, client: client, exempt: exempt}
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
func (h *Hold) Take(n int) error {
	p, more := h.part, int64(n)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch used := p.used + more; {
	case used > p.limit:
		p.account.refuse(p.kind, more)
		return ErrFull
	case used > p.limit/2+1 && p.held[h.client]+more > p.share && !h.exempt:
		p.account.refuse(p.kind, more)
		return ErrShare
	case !p.account.Reserve(p.kind, more):
		return ErrFull
	}
	h.held += more
	p.used += more
	p.held[h.client] += more
	return nil
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
	p.used -= n
	p.account.Release(p.kind, n)
	if p.held[h.client] -= n; p.held[h.client] == 0 {
		delete(p.held, h.client)
	}
	h.held -= n
}

// Close releases all bytes.
func (h *Hold) Close() { h.Release(math.MaxInt64) }
