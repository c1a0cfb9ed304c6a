package conn

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// HTTP2 returns the bounds of what a connection of HTTP/2 holds of its streams.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: MaxStreams, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10, // bodies that are not read yet
	}
}

type refusedKey struct{}

// ServeStream serves a request of HTTP/2 by h, unless lane has answered it. It notes how the client reads the response:
// where the client grants no window, net/http writes nothing that the socket could see.
func (c *Conn) ServeStream(w http.ResponseWriter, r *http.Request, lane func(w http.ResponseWriter) (answered bool), h http.Handler) {
	growStack(0)
	extra, ok := c.streams.beginRequest(r)
	if !ok {
		c.refuseStream(w, r, h)
		return
	}
	sw := &streamWriter{ResponseWriter: w, conn: c}
	defer c.streams.finish(sw, extra)
	if lane(sw) {
		return
	}
	c.streams.note(1, 0)
	defer c.streams.note(-1, 0)
	h.ServeHTTP(sw, r)
}

// beginRequest opens the stream of a request. From now on, writes of net/http for a response in the lane count as
// waiting.
func (s *streams) beginRequest(r *http.Request) (extra int64, ok bool) {
	extra = headerBytes(r) - usualHeaders
	s.mu.Lock()
	defer s.mu.Unlock()
	if extra, ok = s.begin(extra, 0); ok {
		s.moved = time.Now()
	}
	return extra, ok
}

// headerBytes returns the size of a request's headers.
func headerBytes(r *http.Request) int64 {
	size := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return int64(size)
}

// finish closes the stream of a handler of HTTP/2 that returns. net/http may still have its last bytes, for which
// the client may have granted no window, and does not tell when it has written them. To wait for that costs a frame,
// so the stream is parked while memory is not short.
func (s *streams) finish(w *streamWriter, extra int64) {
	park := w.written > 0
	if park && s.memory.IsShort() {
		_ = http.NewResponseController(w).Flush() // fails only when the client has left
		park = false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(extra)
	if park {
		s.park()
	} else {
		s.end()
	}
}

// refuseStream refuses a request that there is no memory for. One at a time gets a response, by HasStream. Others are
// reset, so that clients that do not read hold nothing.
func (c *Conn) refuseStream(w http.ResponseWriter, r *http.Request, h http.Handler) {
	if !c.streams.setRefusing(true) {
		panic(http.ErrAbortHandler)
	}
	defer c.streams.setRefusing(false)
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), refusedKey{}, true)))
	_ = http.NewResponseController(w).Flush() // fails only when the client has left
}

// setRefusing records whether a request is being refused. It returns false if that was recorded already.
func (s *streams) setRefusing(to bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.refusing != to
	s.refusing = to
	return changed
}

// ErrNoStream refuses a request of HTTP/2 that there is no memory for.
var ErrNoStream = &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many streams are open", Err: account.ErrFull}

// streamWriter writes in pieces, as [socket.Write] does and for the same reason.
type streamWriter struct {
	http.ResponseWriter
	conn    *Conn
	written int
}

// buffered is how many bytes of a body net/http keeps until the handler is done: to write these
// takes no waiting.
const buffered = 4 << 10

// Unwrap is for [http.ResponseController].
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *streamWriter) Write(p []byte) (n int, err error) {
	if w.written += len(p); w.written <= buffered {
		return w.ResponseWriter.Write(p)
	}
	w.conn.BeginBody(p)
	defer w.conn.EndBody(p)
	for {
		w.conn.streams.note(0, 1)
		m, err := w.ResponseWriter.Write(p[n:min(len(p), n+writePiece)])
		w.conn.streams.note(0, -1)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush is [http.Flusher]'s.
func (w *streamWriter) Flush() {
	w.conn.streams.note(0, 1)
	defer w.conn.streams.note(0, -1)
	_ = http.NewResponseController(w.ResponseWriter).Flush() // fails only when the client has left
}
