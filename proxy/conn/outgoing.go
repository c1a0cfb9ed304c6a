package conn

import (
	"time"
	"unsafe"

	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/upstream/account"
)

// outgoing reserves memory for the entries that are being written to clients, each once for all clients. If memory for
// these, for streams or for other responses is short, it makes the account close connections. It checks periodically, so
// that hits are not slowed down. The growth between checks is bounded by what the nodes send, because other responses are
// reserved before they are made.
type outgoing struct {
	listener *Listener
	memory   *account.Account
	reserved int64
	log      rate.Sometimes // bounds the lines about closed connections

	logEvents rate.Sometimes // bounds the lines about ended event streams
}

const outgoingCheck = 250 * time.Millisecond

func (o *outgoing) run() {
	defer o.memory.AddHolders(account.Unread, o.holders)()
	defer o.reserve(0)
	ticker := time.NewTicker(outgoingCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if sum := o.unread(); !o.reserve(sum) {
				o.memory.Reclaim(account.Unread, sum-o.reserved)
			}
		case n := <-o.memory.Short(account.Unread):
			o.memory.Reclaim(account.Unread, n)
		case n := <-o.memory.Short(account.Events):
			o.endFollowers(n)
		case <-o.listener.ended.Done():
			return
		}
	}
}

func (o *outgoing) reserve(bytes int64) (ok bool) {
	if ok = o.memory.Reserve(account.Unread, bytes-o.reserved); ok {
		o.reserved = bytes
	}
	return ok
}

// unread returns the bytes of the responses that clients have not read.
func (o *outgoing) unread() (sum int64) {
	seen := map[*byte]bool{}
	o.listener.mu.Lock()
	defer o.listener.mu.Unlock()
	for s := range o.listener.slots {
		var n int64
		s.conn.EachBody(func(body []byte) {
			if first := unsafe.SliceData(body); !seen[first] {
				seen[first] = true
				n += int64(heap.Allocated(cap(body)))
			}
		})
		sum += max(0, n-s.conn.HeldBytes())
	}
	return sum
}

// holders returns the connections with several streams, and those whose clients do not read.
func (o *outgoing) holders() (all []account.Holder) {
	l, now := o.listener, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.slots {
		since, stalled := s.conn.Stalled()
		h := account.Holder{Bytes: s.conn.StreamBytes(stalled), Since: now, Close: func() { o.close(s) }}
		if s.client.IsValid() && !l.o.Exempt(s.conn.Address()) {
			h.Client = s.client.String()
		}
		if stalled {
			h.Since = since
			var n int64
			s.conn.EachBody(func(body []byte) { n += int64(heap.Allocated(cap(body))) })
			h.Bytes += max(n, s.conn.HeldBytes())
		}
		if h.Bytes > 0 {
			all = append(all, h)
		}
	}
	return all
}

// close closes a connection that holds memory.
func (o *outgoing) close(s *slot) {
	_ = s.conn.Abort()
	o.listener.metrics.closed.WithLabelValues("memory").Inc()
	o.log.Do(func() {
		o.listener.o.Logger.Warn("memory is short, closing connections", "reserved", o.memory.Used(), "limit", o.memory.Limit(), "first_client", s.client)
	})
}

// endFollowers ends event streams, polls and WebSockets after a refusal of n bytes for events.
func (o *outgoing) endFollowers(n int64) {
	if ended := o.memory.Reclaim(account.Events, n); ended > 0 {
		o.logEvents.Do(func() {
			o.listener.o.Logger.Warn("memory for events is short, ending event streams and WebSockets", "ended", ended)
		})
	}
}
