package account

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Holder is a connection that uses memory for open streams or unread responses, or an event stream, a poll or a WebSocket
// that uses memory for events.
type Holder struct {
	Client string // the bytes of a client's holders are added; holders without a client count separately
	Bytes  int64
	Since  time.Time // when the client last read something
	Close  func()    // must not block
}

// settleTime is how long a closed connection may take to release its memory.
const settleTime = 100 * time.Millisecond

// A reclaimer closes holders when memory is short.
type reclaimer struct {
	mu      sync.Mutex
	sources map[*func() []Holder]struct{}
	last    time.Time // when it last closed holders

	short chan int64 // has a value after a refusal
}

func newReclaimer() reclaimer {
	return reclaimer{short: make(chan int64, 1), sources: map[*func() []Holder]struct{}{}}
}

func (r *reclaimer) wake(n int64) {
	select {
	case r.short <- n:
	default:
	}
}

// wake lets holders be closed after a reservation was refused, unless its size, more, exceeds a client's share.
func (p *Part) wake(more int64) {
	if p.account != nil && p.kind == Events && more <= p.share {
		p.account.followers.wake(more)
	}
}

// of returns the reclaimer of a kind: Events have their own, and the other kinds that holders use share one.
func (a *Account) of(k Kind) *reclaimer {
	if k == Events {
		return &a.followers
	}
	return &a.connections
}

// AddHolders adds a source of holders of memory of kind k until remove is called.
func (a *Account) AddHolders(k Kind, source func() []Holder) (remove func()) {
	r := a.of(k)
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

// Short returns a channel that receives the size of a refused reservation, of the first one of kind k since the last
// receive. The receiver must call Reclaim.
func (a *Account) Short(k Kind) <-chan int64 { return a.of(k).short }

// excess returns how many bytes holders of kind k must release. For Events, three eighths of their part must be free after n more
// bytes, which is more than Start leaves. For the others, a quarter of the account must be free. But if streams and unread
// responses use at most a quarter with n more bytes, they release nothing, because holders cannot free the memory of other kinds.
func (a *Account) excess(k Kind, n int64) int64 {
	if k == Events {
		return n + a.kinds[Events].Load() - a.events.limit/8*5
	}
	ofHolders := a.kinds[Streams].Load() + a.kinds[Unread].Load()
	return n + min(a.Used()-a.limit/4*3, ofHolders-a.limit/4)
}

// Reclaim closes holders of kind k after a refusal of n bytes, and returns how many. It starts with the client that uses the most
// memory. Among holders of equal size, it starts with the one that has not read for longest. It does nothing while the
// previously closed holders may still release memory.
func (a *Account) Reclaim(k Kind, n int64) (closed int) {
	r := a.of(k)
	r.mu.Lock()
	defer r.mu.Unlock()
	now, needed := time.Now(), a.excess(k, n)
	if needed <= 0 || now.Sub(r.last) < settleTime {
		return 0
	}
	r.last = now
	for _, h := range r.order() {
		if needed <= 0 {
			break
		}
		h.Close()
		needed -= h.Bytes
		closed++
	}
	return closed
}

func (r *reclaimer) order() (all []Holder) {
	sums := map[string]int64{}
	for source := range r.sources {
		for _, h := range (*source)() {
			all = append(all, h)
			sums[h.Client] += h.Bytes
		}
	}
	ofClient := func(h *Holder) int64 {
		if h.Client != "" {
			return sums[h.Client]
		}
		return h.Bytes
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(
			cmp.Compare(ofClient(&b), ofClient(&a)), cmp.Compare(a.Client, b.Client), cmp.Compare(b.Bytes, a.Bytes), a.Since.Compare(b.Since),
		)
	})
	return all
}
