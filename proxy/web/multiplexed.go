package web

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

// serveStream serves a request of HTTP/2. It notes how the client reads the response: where the client grants no
// window, net/http writes nothing that the socket could see. What the lane can answer does not come to h.
func (s *Stack) serveStream(c *Conn, h http.Handler, w http.ResponseWriter, r *http.Request) {
	extra, ok := c.streams.begin(headerBytes(r)-usualHeaders, 0)
	if !ok {
		s.refuseStream(c, h, w, r)
		return
	}
	sw := &streamWriter{ResponseWriter: w, conn: c}
	defer c.streams.finish(sw, extra)
	c.streams.note(0, 0)       // from now on, writes of net/http for a response in the lane count as waiting
	s.setOrigin(w.Header(), r) // for the lane
	if s.servedInLane(c, sw, r) {
		return
	}
	c.streams.note(1, 0)
	defer c.streams.note(-1, 0)
	h.ServeHTTP(sw, r)
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
	s.release(extra)
	switch {
	case w.written == 0:
		s.end()
	case s.memory.IsShort():
		_ = http.NewResponseController(w).Flush() // fails only when the client has left
		s.end()
	default:
		s.park()
	}
}

// refuseStream refuses a request that there is no memory for. One at a time gets a response, by admit. Others are
// reset, so that clients that do not read hold nothing.
func (s *Stack) refuseStream(c *Conn, h http.Handler, w http.ResponseWriter, r *http.Request) {
	defer c.streams.refused.Add(-1)
	if c.streams.refused.Add(1) > 1 {
		panic(http.ErrAbortHandler)
	}
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), refusedKey{}, true)))
	_ = http.NewResponseController(w).Flush() // fails only when the client has left
}

// errNoStream refuses a request of HTTP/2 that there is no memory for.
var errNoStream = &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Public: "too many streams are open", Err: account.ErrFull}

// hasStream reports whether the stream of a request is open.
func (c *Conn) hasStream(r *http.Request) bool {
	return c == nil || c.streams.refused.Load() == 0 || r.Context().Value(refusedKey{}) == nil
}

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
