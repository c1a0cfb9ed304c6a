package conn

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream/account"
)

// MaxStreams is the maximum number of open streams on an HTTP/2 or gRPC connection.
const MaxStreams = 100

// streamCost is the measured memory of an open stream, in bytes: the library's stream, the request with headers of
// up to usualHeaders, the stack of its goroutine and, after that has ended, a response of up to MaxUncounted that the
// client has not read.
const streamCost = 36 << 10

// usualHeaders is the size of the headers included in streamCost, in bytes. Longer headers are reserved in addition.
const usualHeaders = 4 << 10

// slowRead is how long reads pause after a refused stream, because the library allocates each request before it can be
// refused.
const slowRead = 50 * time.Millisecond

// streams are the open streams of an HTTP/2 or gRPC connection. Memory is reserved for all except one, because each
// connection has memory for one request.
type streams struct {
	memory     *account.Account // nil means no limit
	hasRefused atomic.Bool      // a stream was refused since the last read
	refusing   atomic.Bool      // a refused request is getting its response

	writeTimeout time.Duration // time after which net/http resets an HTTP/2 stream whose response it cannot write; 0 means never

	mu           sync.Mutex
	open         int64
	parked       int64 // open streams whose handler has returned, but the client may not have read the response
	extra        int64 // bytes reserved in addition to streamCost
	refused      int64 // calls refused since a message was sent, up to MaxStreams, which the library holds until the client reads
	handlers     int64 // running HTTP/2 handlers
	eventStreams int64 // running HTTP/2 handlers that have flushed a part of their response
	writes       int64 // writes in progress
	closed       bool

	counted time.Time // when ageing was counted
	ageing  int64     // streams parked at that time and since

	changed time.Time     // last arrival of a request or change of writes; zero means never
	waiting []*CallStream // calls whose handlers have not begun
}

// openStream opens a stream. It reserves streamCost, extra and ahead; for the only stream, extra alone. It returns the bytes
// reserved in addition to streamCost, and false if there is no memory. The caller must hold mu.
func (s *streams) openStream(extra, ahead int64) (reserved int64, ok bool) {
	reserved = max(0, extra)
	cost := int64(0)
	if s.open > 0 {
		reserved, cost = reserved+ahead, streamCost
	}
	if reserved+cost > 0 && !s.memory.Reserve(account.Streams, reserved+cost) {
		s.hasRefused.Store(true)
		return 0, false
	}
	s.open++
	s.extra += reserved
	return reserved, true
}

// closeStream closes an open stream. The caller must hold mu.
func (s *streams) closeStream() {
	if s.open--; s.open > 0 {
		s.memory.Release(account.Streams, streamCost)
	}
}

// release releases bytes that openStream reserved in addition to streamCost. The caller must hold mu.
func (s *streams) release(reserved int64) {
	if reserved > 0 {
		s.extra -= reserved
		s.memory.Release(account.Streams, reserved)
	}
}

// leave must be called after the handler of a stream. It closes the stream. If the client may not have read the response,
// it parks the stream instead, which stays open until it is unparked. If MaxStreams are parked already, the client has
// read one of them, because the library limits open streams. The caller must hold mu.
func (s *streams) leave(reserved int64, isUnread bool) {
	s.release(reserved)
	if isUnread && !s.closed && s.parked < MaxStreams {
		s.parked++
	} else {
		s.closeStream()
	}
}

// unpark closes a parked stream. The caller must hold mu.
func (s *streams) unpark() {
	if s.parked > 0 {
		s.parked--
		s.ageing = min(s.ageing, s.parked)
		s.closeStream()
	}
}

// unparkEnded closes streams that have been parked for writeTimeout: net/http has written their responses or has reset them,
// unless the socket blocks. The caller must hold mu.
func (s *streams) unparkEnded(on *socket) {
	if now := time.Now(); s.writeTimeout > 0 && now.Sub(s.counted) > s.writeTimeout && on.writing.Load() == 0 {
		for range s.ageing {
			s.unpark()
		}
		s.counted, s.ageing = now, s.parked
	}
}

func (s *streams) unparkAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.parked > 0 {
		s.unpark()
	}
}

// close closes the streams without a handler, after the connection was closed.
func (s *streams) close() {
	s.unparkAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.closeWaiting(func(*CallStream) bool { return true })
}

// closeWaiting closes waiting streams for which isGone returns true. The caller must hold mu.
func (s *streams) closeWaiting(isGone func(*CallStream) bool) {
	s.waiting = slices.DeleteFunc(s.waiting, func(k *CallStream) bool {
		gone := isGone(k)
		if gone {
			s.release(k.extra + k.ahead)
			s.closeStream()
		}
		return gone
	})
}

func (s *streams) add(handlers, writes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(handlers, writes)
}

// count is add for callers that hold mu.
func (s *streams) count(handlers, writes int64) {
	s.handlers += handlers
	s.writes += writes
	s.changed = time.Now()
}

// waitingSince reports whether writes wait for the client, and since when. It includes writes that net/http continues
// after the handlers. isBusy says that a request has no response yet.
func (s *streams) waitingSince(isBusy bool) (since time.Time, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed, s.writes > 0 || isBusy && s.handlers == 0 && !s.changed.IsZero()
}

// bytes returns the memory of all streams except the first. Parked streams and refused calls count only if the client is
// stalled.
func (s *streams) bytes(stalled bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.open - 1
	if stalled {
		n += s.refused
	} else {
		n -= s.parked
	}
	return max(0, n)*streamCost + s.extra
}

// A CallStream is the stream of a gRPC call. It is open until its handler has returned and its messages are sent.
type CallStream struct {
	conn    *Conn
	ctx     context.Context //nolint:containedctx // the call's
	extra   int64           // bytes reserved for headers
	ahead   int64           // bytes reserved for messages that arrive before the handler begins
	pending int             // the handler and unsent messages
}

// OpenCall opens a stream before the handler of its call begins. headers is the size of the headers, and ahead the number
// of bytes that the client can send before. It returns false if there is no memory. The stream closes if ctx ends or the
// connection is closed before Begin.
func (c *Conn) OpenCall(ctx context.Context, k *CallStream, headers, ahead int64) bool {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeWaiting(func(k *CallStream) bool { return k.ctx.Err() != nil })
	extra := max(0, headers-usualHeaders)
	reserved, ok := s.openStream(extra, ahead)
	if !ok {
		s.refused = min(s.refused+1, MaxStreams)
		return false
	}
	k.conn, k.ctx, k.extra, k.ahead, k.pending = c, ctx, extra, reserved-extra, 1
	s.waiting = append(s.waiting, k)
	if s.closed {
		s.closeWaiting(func(other *CallStream) bool { return other == k })
	}
	return true
}

// Begin must be called when the handler begins. It returns false if the stream is closed.
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

// End must be called when the handler returns, if Begin returned true.
func (k *CallStream) End() {
	k.conn.MarkActive(time.Now())
	s := &k.conn.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.pending--; k.pending == 0 {
		k.conn.calls.Add(-1)
	}
	s.leave(k.extra, k.pending > 0)
}

// Sending records that a message is being sent, until Sent.
func (k *CallStream) Sending(message []byte) {
	if len(message) > MaxUncounted {
		k.conn.BeginBody(message)
	}
	k.addPending(1)
}

// Sent records that a message was sent, or that sending failed.
func (k *CallStream) Sent(message []byte) {
	if len(message) > MaxUncounted {
		k.conn.EndBody(message)
	}
	k.addPending(-1)
}

func (k *CallStream) addPending(messages int) {
	s := &k.conn.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(0, int64(messages))
	if messages < 0 {
		s.refused = 0 // the client reads
	}
	if k.pending += messages; k.pending == 0 {
		k.conn.calls.Add(-1)
		s.unpark()
	}
}
