package web

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/account"
)

// MaxStreams is the maximum number of open streams on a connection of HTTP/2 or gRPC.
const MaxStreams = 100

// streamCost is the measured memory of an open stream, in bytes: the library's stream, the request with headers of
// up to usualHeaders, the stack of its goroutine and, after that has ended, a response of up to Uncounted that the
// client has not read.
const streamCost = 20 << 10

// usualHeaders is how many bytes of headers are in streamCost. What is longer is reserved in addition.
const usualHeaders = 4 << 10

// slowRead is how long a connection on which a stream was refused is not read. Otherwise the requests that the library
// reads before they can be refused take memory.
const slowRead = 50 * time.Millisecond

// streams are the open streams of a connection of HTTP/2 or gRPC. All but one are reserved, because each connection
// has memory for one request.
type streams struct {
	memory *account.Account // nil means no limit
	open   atomic.Int64
	parked atomic.Int64 // of these, streams whose handler has returned and whose response the client may not have read
	extra  atomic.Int64 // bytes reserved in addition
	closed atomic.Bool
	isSlow atomic.Bool // a stream was refused since the last read

	handlers atomic.Int64 // running, of HTTP/2
	writes   atomic.Int64 // waiting for the client
	moved    atomic.Int64 // when a request arrived or writes changed, in Unix nanoseconds; 0 means never
	refused  atomic.Int64 // requests without a stream that are being refused

	mu      sync.Mutex
	waiting []*CallStream // whose handlers have not begun
}

// begin opens a stream, with extra bytes beside its cost, and ahead more unless it is the only one. It returns the
// bytes that are reserved in addition, and false if there is no memory.
func (s *streams) begin(extra, ahead int64) (reserved int64, ok bool) {
	for {
		n := s.open.Load()
		more, cost := max(0, extra), int64(0)
		if n > 0 {
			more, cost = more+ahead, streamCost
		}
		if more+cost > 0 && !s.memory.Reserve(account.Streams, more+cost) {
			s.isSlow.Store(true)
			return 0, false
		}
		if s.open.CompareAndSwap(n, n+1) {
			s.extra.Add(more)
			return more, true
		}
		s.memory.Release(account.Streams, more+cost)
	}
}

// end closes an open stream.
func (s *streams) end() {
	if s.open.Add(-1) > 0 {
		s.memory.Release(account.Streams, streamCost)
	}
}

// release returns what begin reserved in addition, or a part of it.
func (s *streams) release(reserved int64) {
	if reserved > 0 {
		s.extra.Add(-reserved)
		s.memory.Release(account.Streams, reserved)
	}
}

// park keeps a stream open after its handler, until unpark or settle. A library has no more than MaxStreams on a
// connection, so one of more has ended without notice.
func (s *streams) park() {
	if s.parked.Add(1) > MaxStreams {
		s.unpark()
	}
	if s.closed.Load() {
		s.settle()
	}
}

// unpark closes a parked stream.
func (s *streams) unpark() {
	for n := s.parked.Load(); n > 0; n = s.parked.Load() {
		if s.parked.CompareAndSwap(n, n-1) {
			s.end()
			return
		}
	}
}

// settle closes all parked streams.
func (s *streams) settle() {
	for range s.parked.Swap(0) {
		s.end()
	}
}

// leave closes the streams of a connection that is closed. Those with a handler end with it.
func (s *streams) leave() {
	s.closed.Store(true)
	s.settle()
	s.drop(func(*CallStream) bool { return true })
}

// drop closes streams whose handlers will not begin.
func (s *streams) drop(isGone func(*CallStream) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(k *CallStream) bool {
		gone := isGone(k)
		if gone {
			s.release(k.extra + k.ahead)
			s.end()
		}
		return gone
	})
}

func (s *streams) note(handlers, writes int64) {
	s.handlers.Add(handlers)
	s.writes.Add(writes)
	s.moved.Store(time.Now().UnixNano())
}

// waitingSince returns since when writes have waited for the client, including those that net/http continues after
// the handlers. isOpen says that a request has no response yet.
func (s *streams) waitingSince(isOpen bool) (since time.Time, waiting bool) {
	moved := s.moved.Load()
	return time.Unix(0, moved), s.writes.Load() > 0 || isOpen && s.handlers.Load() == 0 && moved != 0
}

// bytes returns the memory of the streams beyond the first. Parked streams count where the client reads nothing.
func (s *streams) bytes(stalled bool) int64 {
	n := s.open.Load() - 1
	if !stalled {
		n -= s.parked.Load()
	}
	return max(0, n)*streamCost + s.extra.Load()
}

// A CallStream is the stream of a call on a connection whose server is no http.Server. It is open until its handler
// has returned and its messages have left.
type CallStream struct {
	conn    *Conn
	ctx     context.Context //nolint:containedctx // the call's
	extra   int64           // bytes reserved for headers
	ahead   int64           // bytes reserved for what arrives before the handler begins
	pending atomic.Int64    // the handler, and messages that have not left
}

// OpenCall opens a stream before the handler of its call begins. headers is the size of its headers, and ahead the
// bytes that the client can send by then. It returns false if there is no memory. The stream closes again if ctx
// ends before Begin.
func (c *Conn) OpenCall(ctx context.Context, k *CallStream, headers, ahead int64) bool {
	s := &c.streams
	s.drop(func(k *CallStream) bool { return k.ctx.Err() != nil })
	extra := max(0, headers-usualHeaders)
	reserved, ok := s.begin(extra, ahead)
	if !ok {
		return false
	}
	k.conn, k.ctx, k.extra, k.ahead = c, ctx, extra, reserved-extra
	k.pending.Store(1)
	s.mu.Lock()
	s.waiting = append(s.waiting, k)
	s.mu.Unlock()
	if s.closed.Load() {
		s.leave()
	}
	return true
}

// Begin marks the beginning of the handler, which calls End. It returns false if the stream is closed, because its
// context has ended.
func (k *CallStream) Begin() bool {
	s := &k.conn.streams
	s.mu.Lock()
	i := slices.Index(s.waiting, k)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		return false
	}
	s.release(k.ahead)
	k.conn.calls.Add(1)
	return true
}

// End marks the end of the handler.
func (k *CallStream) End() {
	s := &k.conn.streams
	k.conn.Heard(time.Now())
	k.conn.calls.Add(-1)
	s.release(k.extra)
	if k.pending.Load() == 1 {
		s.end()
		return
	}
	s.park()
	if k.pending.Add(-1) == 0 {
		s.unpark()
	}
}

// Sending notes that a message is sent, which may have to wait for the client. Sent ends that.
func (k *CallStream) Sending(message []byte) {
	k.pending.Add(1)
	if len(message) > Uncounted {
		k.conn.BeginBody(message)
	}
	k.conn.streams.note(0, 1)
}

// Sent notes that a message has left for the client, or never will.
func (k *CallStream) Sent(message []byte) {
	k.conn.streams.note(0, -1)
	if len(message) > Uncounted {
		k.conn.EndBody(message)
	}
	if k.pending.Add(-1) == 0 {
		k.conn.streams.unpark()
	}
}
