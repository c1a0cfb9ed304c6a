package stream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
)

// A follower is woken by topics, and pays for what it gets: a client of a stream, or
// of a poll.
type follower struct {
	h     *Handler
	woken chan struct{} // holds one token while there may be something to do

	renew    func() (*web.Payer, error) // the client that pays, by the keys and limits in force
	reload   int64                      // the last one that it was admitted after
	limiter  atomic.Pointer[web.Payer]
	reserved atomic.Bool // one event or read is paid for: by the request, at first
}

// A subscription is a topic, and what the follower has of it.
type subscription struct {
	*topic
	path    string      // the name of the topic on /live
	name    digest      // of the path: an id that is used for other paths is unknown by it
	paid    atomic.Bool // the next event is paid for
	had     string      // the tag of the answer that it came with, until it is compared
	answer  digest      // of the last events; 0 for none
	failure digest
}

// init makes a follower whose request is paid for. It is admitted by admit.
func (f *follower) init(h *Handler, renew func() (*web.Payer, error)) {
	f.h, f.woken, f.renew, f.reload = h, make(chan struct{}, 1), renew, h.reloads.Load()
	f.reserved.Store(true)
}

// admit makes the follower one that is paid for, by the keys and limits in force.
func (f *follower) admit() error {
	payer, err := f.renew()
	if err == nil {
		f.limiter.Store(payer)
	}
	return err
}

// admitted tells whether the follower would still be admitted, after each reload of keys
// and limits.
func (f *follower) admitted() bool {
	reload := f.h.reloads.Load()
	if reload == f.reload {
		return true
	}
	f.reload = reload
	return f.admit() == nil
}

// notify says that there may be something to do.
func (f *follower) notify() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// spend takes an event or a read from the follower's limits, and returns 0. Otherwise it returns the time after which
// that may succeed.
func (f *follower) spend(ctx context.Context, payer *web.Payer) (wait time.Duration) {
	if f.reserved.CompareAndSwap(true, false) {
		return 0
	}
	return payer.Pay(ctx)
}

// spendFor is spend for an event of a topic, which may be paid for already.
func (f *follower) spendFor(ctx context.Context, s *subscription) (wait time.Duration) {
	if s.paid.Load() && s.paid.Swap(false) {
		return 0
	}
	return f.spend(ctx, f.limiter.Load())
}
