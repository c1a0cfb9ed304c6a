package account

import (
	"errors"
	"sync"
)

// Errors of reading a body.
var (
	ErrFull     = errors.New("the memory for bodies is in use")
	ErrShare    = errors.New("the client holds its share of the memory for bodies")
	ErrTooLarge = errors.New("the body is larger than allowed")
)

// A Part is a bounded part of an account. Once more than half of it is in use, a client can hold its share and
// no more. A nil Part has no limit. It is safe for concurrent use.
type Part struct {
	account *Account
	kind    Kind
	most    int64
	share   int64

	mu    sync.Mutex
	taken int64
	held  map[string]int64 // by client
}

// Part returns a part of most bytes in which a client can hold share bytes once more than half is in use.
func (a *Account) Part(k Kind, most, share int64) *Part {
	return &Part{account: a, kind: k, most: most, share: share, held: map[string]int64{}}
}

// Upstream returns the part of upstream bodies: three quarters, so that clients can always send and read
// something. It is the same one each time.
func (a *Account) Upstream() *Part { return a.upstream }

// A Hold is the memory of one body, from Open to Close. It is for one goroutine.
type Hold struct {
	part   *Part
	client string
	exempt bool
	held   int64
}

// Open returns an empty Hold for a client. Exempt clients have no share: they stand for many.
func (p *Part) Open(client string, exempt bool) *Hold {
	return &Hold{part: p, client: client, exempt: exempt}
}

// Free returns the bytes that can be reserved now, at most most.
func (p *Part) Free(most int64) int64 {
	if p == nil {
		return most
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.most - p.taken
	if a := p.account; a != nil {
		free = min(free, a.limit-a.Used())
	}
	return max(0, min(free, most))
}

// Take reserves n more bytes. The error is ErrShare or ErrFull, and nothing is reserved then.
func (h *Hold) Take(n int) error {
	p, more := h.part, int64(n)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch taken := p.taken + more; {
	case taken > p.most:
		p.account.refuse(p.kind, more)
		return ErrFull
	case taken > p.most/2+1 && p.held[h.client]+more > p.share && !h.exempt:
		p.account.refuse(p.kind, more)
		return ErrShare
	case !p.account.Reserve(p.kind, more):
		return ErrFull
	}
	h.held += more
	p.taken += more
	p.held[h.client] += more
	return nil
}

// Close releases all of it.
func (h *Hold) Close() {
	p := h.part
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= h.held
	p.account.Release(p.kind, h.held)
	if p.held[h.client] -= h.held; p.held[h.client] == 0 {
		delete(p.held, h.client)
	}
	h.held = 0
}
