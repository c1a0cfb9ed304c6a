package conn

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// HTTP2 returns the limits of an HTTP/2 connection.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: MaxStreams, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10, // unread request bodies
	}
}

// ServeStream serves an HTTP/2 request by lane, or by handle if lane returns false. handle must refuse the request with
// ErrNoStream if refused is true. ServeStream records blocked writes, because the socket does not see that a client grants no window.
func (c *Conn) ServeStream(w http.ResponseWriter, r *http.Request, lane func(w http.ResponseWriter) (answered bool), handle func(w http.ResponseWriter, refused bool)) {
	extra, ok := c.streams.openRequest(r)
	if !ok {
		c.refuseStream(w, handle)
		return
	}
	growStack(0)
	sw := &streamWriter{ResponseWriter: w, conn: c}
	defer c.streams.leaveRequest(sw, extra)
	if lane(sw) {
		return
	}
	c.streams.add(1, 0)
	defer c.streams.add(-1, 0)
	handle(sw, false)
}

func (s *streams) openRequest(r *http.Request) (extra int64, ok bool) {
	extra = int64(len(r.RequestURI)+len(r.Host)+HeaderBytes(r.Header)) - usualHeaders
	s.mu.Lock()
	defer s.mu.Unlock()
	if extra, ok = s.openStream(extra, 0); ok {
		s.changed = time.Now() // so that a blocked write of the lane's response is noticed
	}
	return extra, ok
}

// leaveRequest is leave for an HTTP/2 request. net/http may still hold the last bytes of the response, and does not report
// when it has written them. Flush would wait for that but costs a frame, so leaveRequest lets the stream be parked instead,
// unless memory is short or the stream could stay parked for long.
func (s *streams) leaveRequest(w *streamWriter, extra int64) {
	isUnread := w.written > 0
	if isUnread && (s.memory.IsShort() || s.parksForLong()) {
		w.Flush()
		isUnread = false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.isStream {
		s.eventStreams--
	}
	s.unparkEnded(w.conn.socket)
	s.leave(extra, isUnread)
}

// mostParked is the number of parked streams from which on responses are flushed beside an event stream, which keeps a
// connection from becoming idle.
const mostParked = 8

func (s *streams) parksForLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parked >= mostParked && s.eventStreams > 0
}

// refuseStream refuses a request for lack of memory. One request at a time per connection gets a response. Other streams are reset,
// so that clients that do not read use no memory.
func (c *Conn) refuseStream(w http.ResponseWriter, handle func(w http.ResponseWriter, refused bool)) {
	if !c.streams.refusing.CompareAndSwap(false, true) {
		panic(http.ErrAbortHandler)
	}
	defer c.streams.refusing.Store(false)
	handle(w, true)
	_ = http.NewResponseController(w).Flush() // fails only if the client has disconnected
}

// ErrNoStream refuses a stream for lack of memory.
var ErrNoStream = &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too little memory is free for this request", Err: account.ErrFull}

// streamWriter writes in pieces for the same reason as [socket.Write].
type streamWriter struct {
	http.ResponseWriter
	conn     *Conn
	written  int
	isStream bool // the handler has flushed
}

// buffered is the number of bytes that net/http buffers until the handler returns. Writing these does not block.
const buffered = 4 << 10

// Unwrap supports [http.ResponseController].
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *streamWriter) Write(p []byte) (n int, err error) {
	if w.written += len(p); w.written <= buffered {
		return w.ResponseWriter.Write(p)
	}
	w.conn.BeginBody(p)
	defer w.conn.EndBody(p)
	for {
		w.conn.streams.add(0, 1)
		m, err := w.ResponseWriter.Write(p[n:min(len(p), n+writePiece)])
		w.conn.streams.add(0, -1)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

func (s *streams) beginFlush(w *streamWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(0, 1)
	s.unparkEnded(w.conn.socket)
	if !w.isStream {
		w.isStream = true
		s.eventStreams++
	}
}

// Flush implements [http.Flusher].
func (w *streamWriter) Flush() {
	s := &w.conn.streams
	s.beginFlush(w)
	defer s.add(0, -1)
	_ = http.NewResponseController(w.ResponseWriter).Flush() // fails only if the client has disconnected
}
