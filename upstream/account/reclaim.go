package account

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A Holder is a connection that uses memory for open streams or unread responses.
type Holder struct {
	Client netip.Addr // the bytes of a client's holders are added; holders with the zero Addr count separately
	Bytes  int64
	Since  time.Time // when the client last read something
	Close  func()
}

// settleTime is how long a closed connection may take to release its memory.
const settleTime = 100 * time.Millisecond

// A reclaimer closes connections when memory is short.
type reclaimer struct {
	mu      sync.Mutex
	sources map[*func() []Holder]struct{}
	last    time.Time // when it last closed connections

	short chan int64 // has a value after a refusal
}

func (r *reclaimer) wake(n int64) {
	select {
	case r.short <- n:
	default:
	}
}

// AddHolders adds a source of holders until remove is called.
func (a *Account) AddHolders(source func() []Holder) (remove func()) {
	r := &a.reclaimer
	r.mu.Lock()
	defer r.mu.Unlock()
	key := &source
	r.sources[key] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sources, key)
	}
}

// Short returns a channel that receives the size of a refused stream or response, of the first one since the
// last receive. The receiver must call Reclaim.
func (a *Account) Short() <-chan int64 { return a.reclaimer.short }

// Reclaim closes holders until a quarter of the account is free after n more bytes, or until streams and unread responses use
// at most a quarter, because holders cannot free the memory of other kinds. It starts with the client that uses the most
// memory. Among holders of equal size, it starts with the one that has not read for longest. It does nothing while the
// previously closed connections may still release memory.
func (a *Account) Reclaim(n int64) {
	r := &a.reclaimer
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	ofHolders := a.kinds[Streams].Load() + a.kinds[Unread].Load()
	needed := n + min(a.Used()-a.limit/4*3, ofHolders-a.limit/4)
	if needed <= 0 || now.Sub(r.last) < settleTime {
		return
	}
	r.last = now
	for _, h := range r.order() {
		if needed <= 0 {
			return
		}
		h.Close()
		needed -= h.Bytes
	}
}

func (r *reclaimer) order() (all []Holder) {
	sums := map[netip.Addr]int64{}
	for source := range r.sources {
		for _, h := range (*source)() {
			all = append(all, h)
			sums[h.Client] += h.Bytes
		}
	}
	ofClient := func(h *Holder) int64 {
		if h.Client.IsValid() {
			return sums[h.Client]
		}
		return h.Bytes
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(
			cmp.Compare(ofClient(&b), ofClient(&a)), a.Client.Compare(b.Client), cmp.Compare(b.Bytes, a.Bytes), a.Since.Compare(b.Since),
		)
	})
	return all
}
