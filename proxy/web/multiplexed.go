package web

import (
	"net/http"
	"sync"
	"time"
)

// serveStream serves a request of HTTP/2 and takes note of how the client takes its answer:
// where the client grants no window, net/http writes nothing that the socket could see. What the
// lane can answer does not come to h.
func (s *Stack) serveStream(c *Conn, h http.Handler, w http.ResponseWriter, r *http.Request) {
	c.streams.note(0, 0) // what net/http writes of an answer in the lane is waited for from here on
	w = &streamWriter{ResponseWriter: w, conn: c}
	s.setOrigin(w.Header(), r) // for the lane
	if c.fast != nil && s.NoLane() == "" && c.fast.Answer(c, w, r) {
		return
	}
	c.streams.note(1, 0)
	defer c.streams.note(-1, 0)
	h.ServeHTTP(w, r)
}

// streams are those of a connection of HTTP/2.
type streams struct {
	mu       sync.Mutex
	handlers int       // that have not returned
	writes   int       // that they wait for
	moved    time.Time // when a request came, or one of these began or ended
}

func (s *streams) note(handlers, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers += handlers
	s.writes += writes
	s.moved = time.Now()
}

// waiting says since when writes have waited for the client, the writes that net/http goes on
// with after the handlers included: open says that there is a request without its answer.
func (s *streams) waiting(open bool) (since time.Time, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved, s.writes > 0 || open && s.handlers == 0 && !s.moved.IsZero()
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
