package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// A Conn is a client's connection that sends an answer in one system call.
// net/http collects 4 KiB, sends those, and then the rest: two calls, and two
// packets for the client to wake up for. It is for http.Server's listener;
// ConnContext makes it known to the handler.
type Conn struct {
	*socket
	carrier carrier    // what carries requests: the socket, or TLS on it
	beneath bool       // it is what TLS is on, and carries no requests itself
	records *records   // of TLS, where they are collected
	lane    LaneConn   // nil: none
	fast    Lane       // that answers the requests which it carries; nil: none
	address netip.Addr // the client's; not valid where it has none
	seen    sights

	outgoing bodies

	buffer *writeBuffer // what was written but not sent; nil while nothing is held back
	pieces [2][]byte
}

// A carrier carries requests and answers.
type carrier interface {
	net.Conn
	WriteBuffers(pieces *net.Buffers) (int64, error)
	CloseWrite() error
}

// writeBuffer has room for net/http's buffer twice: for what it sends on its own
// when that is full, and for what it has left in the end.
type writeBuffer struct {
	text []byte
	room [2 * 4 << 10]byte
}

var buffers = sync.Pool{New: func() any { return new(writeBuffer) }}

// NewConn wraps a connection. Requests are answered in the fast lane where that can,
// which may be nil; onClose, which may be nil, is called once it is closed.
func NewConn(c net.Conn, fast Lane, onClose func()) *Conn {
	if onClose == nil {
		onClose = func() {}
	}
	s := newSocket(c, onClose)
	return newConn(s, s, fast)
}

func newConn(s *socket, on carrier, fast Lane) *Conn {
	conn := &Conn{socket: s, carrier: on}
	if peer, ok := s.RemoteAddr().(*net.TCPAddr); ok {
		conn.address = peer.AddrPort().Addr().Unmap().WithZone("")
	}
	if fast != nil {
		conn.fast, conn.lane = fast, fast.Wrap(conn, on)
	}
	return conn
}

type connKey struct{}

// IsConnKey tells the key by which contexts have the connection of ConnOf.
func IsConnKey(key any) bool { return key == connKey{} }

// ConnContext is for http.Server's field of the same name. Connections that are
// no *Conn are left as they are.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if ours, beneath := below(c); ours != nil {
		ours.beneath = beneath
		return context.WithValue(ctx, connKey{}, ours)
	}
	return ctx
}

// Accepted is the connection of ours that a listener has given to a server that is no
// http.Server; nil if it is none. The context of a request on it gives it by IsConnKey.
func Accepted(c net.Conn) *Conn {
	ours, beneath := below(c)
	if ours != nil {
		ours.beneath = beneath
	}
	return ours
}

// ConnState is for http.Server's field of the same name. A connection that is beneath
// TLS has no fast lane.
func ConnState(c net.Conn, state http.ConnState) {
	ours, beneath := below(c)
	if ours == nil {
		return
	}
	ours.follow(state)
	if ours.lane != nil && !beneath {
		ours.lane.State(state)
	}
}

// below is the connection of ours that http.Server has, nil for none; beneath says that
// it has one with TLS on it.
func below(c net.Conn) (ours *Conn, beneath bool) {
	switch c := c.(type) {
	case *Conn:
		return c, false
	case *secureConn:
		return c.Conn, false
	case *tls.Conn:
		ours, _ = c.NetConn().(*Conn)
		return ours, true
	}
	return nil, false
}

// ConnOf is the connection of a request's client, nil if it is not ours.
func ConnOf(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// Address is the client's; not valid where it has none.
func (c *Conn) Address() netip.Addr { return c.address }

// Read reads for net/http, and answers in its place what the fast lane can.
func (c *Conn) Read(p []byte) (int, error) {
	if c.lane == nil {
		return c.carrier.Read(p)
	}
	return c.lane.Read(p)
}

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.lane == nil {
		return c.carrier.SetReadDeadline(t)
	}
	return c.lane.SetReadDeadline(t)
}

// Close closes the connection, after an answer in the fast lane that is in
// progress.
func (c *Conn) Close() error {
	if c.lane == nil {
		return c.carrier.Close()
	}
	return c.lane.Close()
}

// CloseWrite ends what is sent.
func (c *Conn) CloseWrite() error { return c.carrier.CloseWrite() }

// Abort closes the connection at once, whatever is being written to it. What the
// kernel holds of that is dropped.
func (c *Conn) Abort() error {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return c.socket.Close()
}

// Write sends what was held back, and p with it, unless p is to be held back and
// there is room for it.
func (c *Conn) Write(p []byte) (int, error) {
	b := c.buffer
	switch {
	case c.records != nil:
		return c.records.write(c.socket, p)
	case b == nil || len(b.text)+len(p) > cap(b.text) && len(b.text) == 0:
		return c.carrier.Write(p)
	case len(b.text)+len(p) <= cap(b.text):
		b.text = append(b.text, p...)
		return len(p), nil
	}
	c.pieces = [2][]byte{b.text, p}
	pieces := net.Buffers(c.pieces[:])
	n, err := c.carrier.WriteBuffers(&pieces)
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
		if _, err := c.carrier.Write(b.text); err != nil {
			_ = c.Close()
		}
	}
	buffers.Put(b)
}

// writeWhole writes a body whose headers are set and whose length is among them.
func writeWhole(w http.ResponseWriter, r *http.Request, body []byte) {
	const fits = 3 << 10 // into net/http's buffer, beside the headers
	c := ConnOf(r)
	if c == nil || len(body) <= fits {
		_, _ = w.Write(body) // fails only when the client has left
		return
	}
	if r.ProtoMajor < 2 { // of HTTP/2 each stream says so
		c.BeginBody(body)
		defer c.EndBody(body)
	}
	if c.beneath {
		_, _ = w.Write(body)
		return
	}
	c.buffer = buffers.Get().(*writeBuffer) //nolint:forcetypeassert // the pool has no others
	c.buffer.text = c.buffer.room[:0]
	defer c.release()
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush() // what net/http has left
}
