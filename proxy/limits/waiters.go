package limits

import (
	"net/http"
	"sync"
	"time"
)

// Waiters are the requests that wait for a block. Each holds a connection for as
// long as its block takes to come, so there are places for a bounded number. Once
// more than half of these are taken, a client has a share of them, as it has of
// the connections: a client's key name, its IPv4 address, or its IPv6 /64. Loopback
// and trusted proxies have many clients behind them, and no share.
type Waiters struct {
	admission *Admission

	mu    sync.Mutex
	taken int
	held  map[string]int // by client
}

// DefaultWait is how long a request waits for a block where nothing else is
// configured.
const DefaultWait = 10 * time.Second

const (
	maxWaiters   = 1000
	waitersShare = maxWaiters / 20
)

// NewWaiters makes places of their own for the requests of one interface.
func (a *Admission) NewWaiters() *Waiters { return &Waiters{admission: a, held: map[string]int{}} }

// Enter takes a place for a request, and for the tenant whose key it has ("" for
// none), until leave is called. The error is a
// *Refusal: 429 where the client holds its share, 503 where all places are taken.
func (w *Waiters) Enter(r *http.Request, tenant string, retry time.Duration) (leave func(), err error) {
	who, exempt := w.admission.Name(r, tenant), w.admission.isMany(r, tenant)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.taken >= maxWaiters:
		return nil, &Refusal{Status: http.StatusServiceUnavailable, RetryAfter: retry, Public: "too many requests wait for a block"}
	case w.taken > maxWaiters/2 && w.held[who] >= waitersShare && !exempt:
		return nil, &Refusal{Status: http.StatusTooManyRequests, RetryAfter: retry, Public: "too many requests of this client wait for a block"}
	}
	w.taken++
	w.held[who]++
	return func() { w.leave(who) }, nil
}

func (w *Waiters) leave(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken--
	if w.held[who]--; w.held[who] == 0 {
		delete(w.held, who)
	}
}

// isMany tells a client behind which there are others: one without a key, at an
// address of this machine or of a trusted proxy.
func (a *Admission) isMany(r *http.Request, tenant string) bool {
	addr := a.AddressOf(r)
	return tenant == "" && (addr.IsLoopback() || a.Trusts(addr))
}
