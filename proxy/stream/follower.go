package stream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
)

// follower is a stream or a poll. Topics wake it, and its limits are charged for each event.
type follower struct {
	h     *Handler
	woken chan struct{} // holds one token while there may be something to do
	ended atomic.Bool   // the server ends the stream or poll, because memory is short

	client string // name of the client in whose share the memory counts
	isMany bool   // the client may be many clients, and has no share

	findLimiter func() (*web.Limiter, error) // returns the client to charge, under the current keys and limits
	reload      int64                        // value of Handler.reloads at the last admission
	limiter     atomic.Pointer[web.Limiter]
	reserved    atomic.Bool // one event or read is already paid for; the request pays for the first one
}

// subscription is a topic and what the follower has received from it.
type subscription struct {
	topic   *topic
	path    string      // name of the topic on /live
	name    digest      // of path; makes an id useless for other paths
	paid    atomic.Bool // the next event is already paid for
	had     string      // tag of the answer that the client had when it connected; "" once compared
	answer  digest      // digests of the last events sent; 0 for none
	failure digest

	failedAfter int64 // of a failure in a frame: height of the last complete frame before it
}

// init prepares a follower for a client whose request is paid for. Call admit next.
func (f *follower) init(h *Handler, c *limits.Client, findLimiter func() (*web.Limiter, error)) {
	f.h, f.woken, f.findLimiter, f.reload = h, make(chan struct{}, 1), findLimiter, h.reloads.Load()
	f.client, f.isMany = c.Name(), h.stack.Admission.IsMany(c)
	f.reserved.Store(true)
}

// admit sets the client to charge, or returns why the current keys and limits refuse it.
func (f *follower) admit() error {
	limiter, err := f.findLimiter()
	if err == nil {
		f.limiter.Store(limiter)
	}
	return err
}

// admitted reports whether the follower is still allowed. It checks again after each reload of keys and limits.
func (f *follower) admitted() bool {
	reload := f.h.reloads.Load()
	if reload == f.reload {
		return true
	}
	f.reload = reload
	return f.admit() == nil
}

// notify wakes the follower.
func (f *follower) notify() { upstream.Wake(f.woken) }

// end ends the stream or poll. The client may repeat the request.
func (f *follower) end() {
	f.ended.Store(true)
	f.notify()
}

// spend charges the follower for an event or a read and returns 0. If its limits do not allow that, it returns the
// time to wait.
func (f *follower) spend(ctx context.Context, limiter *web.Limiter) (wait time.Duration) {
	if f.reserved.CompareAndSwap(true, false) {
		return 0
	}
	return limiter.Spend(ctx)
}

// spendFor charges the follower for an event of a topic, unless the topic's read was charged to it.
func (f *follower) spendFor(ctx context.Context, s *subscription) (wait time.Duration) {
	if s.paid.Load() && s.paid.Swap(false) {
		return 0
	}
	return f.spend(ctx, f.limiter.Load())
}
