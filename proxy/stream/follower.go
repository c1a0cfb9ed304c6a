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

	renew   func() (*web.Payer, error) // the client that pays, by the keys and limits in force
	reload  int64                      // the last one that it was admitted after
	payer   atomic.Pointer[web.Payer]
	prepaid atomic.Bool // one event or read is paid for: by the request, at first
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
	f.prepaid.Store(true)
}

// admit makes the follower one that is paid for, by the keys and limits in force.
func (f *follower) admit() error {
	payer, err := f.renew()
	if err == nil {
		f.payer.Store(payer)
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

// pay has the follower pay for an event or a read, and is 0; or it is the time to wait
// until that may succeed.
func (f *follower) pay(ctx context.Context, payer *web.Payer) (wait time.Duration) {
	if f.prepaid.CompareAndSwap(true, false) {
		return 0
	}
	return payer.Pay(ctx)
}

// payFor has the follower pay for an event of a topic, unless it has done so already.
func (f *follower) payFor(ctx context.Context, s *subscription) (wait time.Duration) {
	if s.paid.Load() && s.paid.Swap(false) {
		return 0
	}
	return f.pay(ctx, f.payer.Load())
}
