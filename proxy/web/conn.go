package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
)

// A Conn is a client's connection that sends an answer in one system call.
// net/http collects 4 KiB, sends those, and then the rest: two calls, and two
// packets for the client to wake up for. It is for http.Server's listener;
// ConnContext makes it known to the handler.
type Conn struct {
	*socket
	lane    *lane.Conn // nil: none
	onClose func()
	seen    seen

	buffer *writeBuffer // what was written but not sent; nil while nothing is held back
	pieces [2][]byte
}

// writeBuffer has room for net/http's buffer twice: for what it sends on its own
// when that is full, and for what it has left in the end.
type writeBuffer struct {
	text []byte
	room [2 * 4 << 10]byte
}

var buffers = sync.Pool{New: func() any { return new(writeBuffer) }}

// NewConn wraps a connection. Repeated requests are answered in the fast lane,
// which may be nil; onClose, which may be nil, is called once it is closed.
func NewConn(c net.Conn, fast *lane.Lane, onClose func()) *Conn {
	if onClose == nil {
		onClose = func() {}
	}
	conn := &Conn{socket: newSocket(c), onClose: sync.OnceFunc(onClose)}
	if fast != nil {
		conn.lane = fast.NewConn(conn.socket)
		conn.lane.Owner = conn
	}
	return conn
}

type connKey struct{}

// ConnContext is for http.Server's field of the same name. Connections that are
// no *Conn are left as they are.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if ours, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, ours)
	}
	return ctx
}

// ConnState is for http.Server's field of the same name.
func ConnState(c net.Conn, state http.ConnState) {
	ours, ok := c.(*Conn)
	if !ok {
		return
	}
	ours.follow(state)
	if ours.lane != nil {
		ours.lane.State(state)
	}
}

// ConnStateBelowTLS tells the connection below one with TLS, on which there is no
// fast lane.
func ConnStateBelowTLS(c *tls.Conn, state http.ConnState) {
	if ours, ok := c.NetConn().(*Conn); ok {
		ours.follow(state)
	}
}

// connOf is the connection of a request's client, nil if it is not ours.
func connOf(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// Read reads for net/http, and answers in its place what the fast lane can.
func (c *Conn) Read(p []byte) (int, error) {
	if c.lane == nil {
		return c.socket.Read(p)
	}
	return c.lane.Read(p)
}

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.lane == nil {
		return c.socket.Conn.SetReadDeadline(t)
	}
	return c.lane.SetReadDeadline(t)
}

// Close closes the connection, after an answer in the fast lane that is in
// progress.
func (c *Conn) Close() error {
	defer c.onClose()
	if c.lane == nil {
		return c.socket.Conn.Close()
	}
	return c.lane.Close()
}

// Write sends what was held back, and p with it, unless p is to be held back and
// there is room for it.
func (c *Conn) Write(p []byte) (int, error) {
	b := c.buffer
	switch {
	case b == nil || len(b.text)+len(p) > cap(b.text) && len(b.text) == 0:
		return c.socket.Conn.Write(p)
	case len(b.text)+len(p) <= cap(b.text):
		b.text = append(b.text, p...)
		return len(p), nil
	}
	c.pieces = [2][]byte{b.text, p}
	pieces := net.Buffers(c.pieces[:])
	n, err := pieces.WriteTo(c.socket.Conn)
	n -= int64(len(b.text))
	b.text, c.pieces = b.text[:0], [2][]byte{}
	return int(max(0, n)), err
}

// release ends the holding back. net/http believes that what was held is sent,
// so after a failure it must not send more.
func (c *Conn) release() {
	b := c.buffer
	c.buffer = nil
	if len(b.text) > 0 {
		if _, err := c.socket.Conn.Write(b.text); err != nil {
			_ = c.Close()
		}
	}
	buffers.Put(b)
}

// writeWhole writes a body whose headers are set and whose length is among them.
func writeWhole(w http.ResponseWriter, r *http.Request, body []byte) {
	const fits = 3 << 10 // into net/http's buffer, beside the headers
	c := connOf(r)
	if c == nil || len(body) <= fits {
		_, _ = w.Write(body) // fails only when the client has left
		return
	}
	c.buffer = buffers.Get().(*writeBuffer) //nolint:forcetypeassert // the pool has no others
	c.buffer.text = c.buffer.room[:0]
	defer c.release()
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush() // what net/http has left
}
