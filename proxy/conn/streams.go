package conn

import (
	"context"
	"net/http"
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
const streamCost = 36 << 10

// usualHeaders is how many bytes of headers are in streamCost. What is longer is reserved in addition.
const usualHeaders = 4 << 10

// slowRead is how long a connection on which a stream was refused is not read. Otherwise the requests that the library
// reads before they can be refused take memory.
const slowRead = 50 * time.Millisecond

// streams are the open streams of a connection of HTTP/2 or gRPC. All but one are reserved, because each connection
// has memory for one request.
type streams struct {
	memory *account.Account // nil means no limit
	isSlow atomic.Bool      // a stream was refused since the last read

	mu       sync.Mutex
	open     int64
	parked   int64 // of these, streams whose handler has returned and whose response the client may not have read
	extra    int64 // bytes reserved in addition
	handlers int64 // running, of HTTP/2
	writes   int64 // waiting for the client
	refusing bool  // a request without a stream gets its response
	closed   bool
	moved    time.Time     // when a request arrived or writes changed; zero means never
	waiting  []*CallStream // whose handlers have not begun
}

// begin opens a stream, with extra bytes beside its cost, and ahead more unless it is the only one. It returns the
// bytes that are reserved in addition, and false if there is no memory. The caller must hold mu.
func (s *streams) begin(extra, ahead int64) (reserved int64, ok bool) {
	reserved = max(0, extra)
	cost := int64(0)
	if s.open > 0 {
		reserved, cost = reserved+ahead, streamCost
	}
	if reserved+cost > 0 && !s.memory.Reserve(account.Streams, reserved+cost) {
		s.isSlow.Store(true)
		return 0, false
	}
	s.open++
	s.extra += reserved
	return reserved, true
}

// end closes an open stream. The caller must hold mu.
func (s *streams) end() {
	if s.open--; s.open > 0 {
		s.memory.Release(account.Streams, streamCost)
	}
}

// release returns what begin reserved in addition, or a part of it. The caller must hold mu.
func (s *streams) release(reserved int64) {
	if reserved > 0 {
		s.extra -= reserved
		s.memory.Release(account.Streams, reserved)
	}
}

// park keeps a stream open after its handler, until unpark or settle. A library has no more than MaxStreams on a
// connection, so one of more has ended without notice. The caller must hold mu.
func (s *streams) park() {
	if s.closed || s.parked == MaxStreams {
		s.end()
	} else {
		s.parked++
	}
}

// unpark closes a parked stream. The caller must hold mu.
func (s *streams) unpark() {
	if s.parked > 0 {
		s.parked--
		s.end()
	}
}

// settle closes all parked streams.
func (s *streams) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.parked > 0 {
		s.unpark()
	}
}

// leave closes the streams of a connection that is closed. Those with a handler end with it.
func (s *streams) leave() {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop(func(*CallStream) bool { return true })
}

// drop closes streams whose handlers will not begin. The caller must hold mu.
func (s *streams) drop(isGone func(*CallStream) bool) {
	s.waiting = slices.DeleteFunc(s.waiting, func(k *CallStream) bool {
		gone := isGone(k)
		if gone {
			s.release(k.extra + k.ahead)
			s.end()
		}
		return gone
	})
}

// note changes the numbers of handlers and writes.
func (s *streams) note(handlers, writes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers += handlers
	s.writes += writes
	s.moved = time.Now()
}

// waitingSince returns since when writes have waited for the client, including those that net/http continues after
// the handlers. isOpen says that a request has no response yet.
func (s *streams) waitingSince(isOpen bool) (since time.Time, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved, s.writes > 0 || isOpen && s.handlers == 0 && !s.moved.IsZero()
}

// bytes returns the memory of the streams beyond the first. Parked streams count where the client reads nothing.
func (s *streams) bytes(stalled bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.open - 1
	if !stalled {
		n -= s.parked
	}
	return max(0, n)*streamCost + s.extra
}

// HasStream reports whether there is memory for the stream of a request.
func HasStream(r *http.Request) bool {
	return r.ProtoMajor < 2 || r.Context().Value(refusedKey{}) == nil
}

// A CallStream is the stream of a call on a connection whose server is no http.Server. It is open until its handler
// has returned and its messages have left.
type CallStream struct {
	conn    *Conn
	ctx     context.Context //nolint:containedctx // the call's
	extra   int64           // bytes reserved for headers
	ahead   int64           // bytes reserved for what arrives before the handler begins
	pending int             // the handler, and messages that have not left
}

// OpenCall opens a stream before the handler of its call begins. headers is the size of its headers, and ahead the
// bytes that the client can send by then. It returns false if there is no memory. The stream closes again if ctx ends
// or the connection is closed before Begin.
func (c *Conn) OpenCall(ctx context.Context, k *CallStream, headers, ahead int64) bool {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(k *CallStream) bool { return k.ctx.Err() != nil })
	extra := max(0, headers-usualHeaders)
	reserved, ok := s.begin(extra, ahead)
	if !ok {
		return false
	}
	k.conn, k.ctx, k.extra, k.ahead, k.pending = c, ctx, extra, reserved-extra, 1
	s.waiting = append(s.waiting, k)
	if s.closed {
		s.drop(func(other *CallStream) bool { return other == k })
	}
	return true
}

// Begin marks the beginning of the handler, which calls End. It returns false if the stream is closed, because its
// context has ended.
func (k *CallStream) Begin() bool {
	s := &k.conn.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, k)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.release(k.ahead)
	k.conn.calls.Add(1)
	return true
}

// End marks the end of the handler.
func (k *CallStream) End() {
	k.conn.MarkActive(time.Now())
	k.conn.calls.Add(-1)
	s := &k.conn.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(k.extra)
	if k.pending--; k.pending > 0 {
		s.park()
	} else {
		s.end()
	}
}

// Sending notes that a message is sent, which may have to wait for the client. Sent ends that.
func (k *CallStream) Sending(message []byte) {
	if len(message) > Uncounted {
		k.conn.BeginBody(message)
	}
	k.moved(1)
}

// Sent notes that a message has left for the client, or never will.
func (k *CallStream) Sent(message []byte) {
	if len(message) > Uncounted {
		k.conn.EndBody(message)
	}
	k.moved(-1)
}

// moved changes the number of messages that have not left.
func (k *CallStream) moved(messages int) {
	s := &k.conn.streams
	s.note(0, int64(messages))
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.pending += messages; k.pending == 0 {
		s.unpark()
	}
}
