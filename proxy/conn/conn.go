// Package conn has the connections of clients, and the memory that is reserved for what they send and have not read.
//
//   - conn.go wraps a client's connection, so that a response leaves in one system call; secure.go adds TLS;
//   - idle.go tells which clients are idle, and which do not read;
//   - multiplexed.go serves the streams of HTTP/2, streams.go reserves memory for them and for the calls of gRPC;
//   - bodies.go reserves memory for responses, incoming.go for request bodies;
//   - revoked.go ends connections and streams whose API key is removed, or that an access rule denies.
package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/upstream/account"
)

// A Conn is a client's connection that sends an answer in one system call.
// net/http collects 4 KiB, sends those, and then the rest: two calls, and two
// packets for the client to wake up for. It is for http.Server's listener;
// Context makes it known to the handler.
type Conn struct {
	*socket
	carrier carrier    // what carries requests: the socket, or TLS on it
	beneath bool       // it is what TLS is on, and carries no requests itself
	records *records   // of TLS, where they are collected
	from    net.Conn   // what requests are read from: the lane, or else the carrier
	lane    LaneConn   // nil: none
	fast    Lane       // that answers the requests which it carries; nil: none
	address netip.Addr // the client's; not valid where it has none
	seen    session.Seen

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

// New wraps a connection. Requests are answered in the fast lane where that can,
// which may be nil; onClose, which may be nil, is called once it is closed. Open streams are reserved in
// memory, which may be nil.
func New(c net.Conn, fast Lane, memory *account.Account, onClose func()) *Conn {
	s := &socket{Conn: c, streams: streams{memory: memory}}
	s.onClose = sync.OnceFunc(func() {
		s.streams.leave()
		if onClose != nil {
			onClose()
		}
	})
	s.MarkActive(time.Now())
	return newConn(s, s, fast)
}

func newConn(s *socket, on carrier, fast Lane) *Conn {
	conn := &Conn{socket: s, carrier: on, from: on}
	if peer, ok := s.RemoteAddr().(*net.TCPAddr); ok {
		conn.address = peer.AddrPort().Addr().Unmap().WithZone("")
	}
	if fast != nil {
		conn.fast, conn.lane = fast, fast.Wrap(conn, on)
	}
	if conn.lane != nil { // a lane of gRPC reads no requests itself
		conn.from = conn.lane
	}
	return conn
}

// From returns a connection on the same socket that is the client's at an address, as a proxy before it says. c is without a
// lane and must no longer be used.
func (c *Conn) From(client net.Addr, fast Lane) *Conn {
	c.socket.client = client
	return newConn(c.socket, c.socket, fast)
}

// A Lane answers requests on connections in place of their handlers.
type Lane interface {
	// Wrap returns the connection that http.Server reads. below carries the requests of the client's connection.
	Wrap(client *Conn, below net.Conn) LaneConn
}

// A LaneConn is a client's connection with a lane.
type LaneConn interface {
	net.Conn
	State(s http.ConnState)
}

// Lane returns the lane that answers requests on the connection, nil for none.
func (c *Conn) Lane() Lane { return c.fast }

// LaneConn returns what the lane reads requests of HTTP/1 from, nil for none.
func (c *Conn) LaneConn() LaneConn { return c.lane }

// IsBeneathTLS reports whether the connection carries TLS, and no requests itself.
func (c *Conn) IsBeneathTLS() bool { return c.beneath }

// Seen returns what the client has seen on the connection. It is nil if c is.
func (c *Conn) Seen() *session.Seen {
	if c == nil {
		return nil
	}
	return &c.seen
}

type connKey struct{}

// IsKey reports whether key is the one by which contexts have the connection that Of returns.
func IsKey(key any) bool { return key == connKey{} }

// Context is for the field ConnContext of [http.Server]. Connections that are
// no *Conn are left as they are.
func Context(ctx context.Context, c net.Conn) context.Context {
	if ours := Accepted(c); ours != nil {
		return context.WithValue(ctx, connKey{}, ours)
	}
	return ctx
}

// Accepted is the connection of ours that a listener has given to a server that is no
// http.Server; nil if it is none. The context of a request on it gives it by IsKey.
func Accepted(c net.Conn) *Conn {
	ours, beneath := below(c)
	if ours != nil {
		ours.beneath = beneath
	}
	return ours
}

// State is for the field ConnState of [http.Server]. A connection that is beneath
// TLS has no fast lane.
func State(c net.Conn, state http.ConnState) {
	ours, beneath := below(c)
	if ours == nil {
		return
	}
	if state == http.StateIdle { // a client whose answer is sent has all its time to say the next thing
		ours.MarkActive(time.Now())
		ours.streams.settle()
	}
	ours.busy.Store(state == http.StateActive || state == http.StateHijacked)
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

// Of returns the connection of a request's client, nil if it is not ours.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// RemoteAddr is the client's address. http.Server asks for it first of all on the goroutine of a new
// connection, where a stack that grows has least on it to be copied.
func (c *Conn) RemoteAddr() net.Addr {
	growStack(0)
	return c.socket.RemoteAddr()
}

// growStack gives the calling goroutine a stack of 8 KiB, which an answer from memory needs, by its large
// frame. A stack that grows as calls get deeper is copied each time it is doubled, with all that is on it:
// with every answer that a new connection gets, that was a tenth of the CPU.
//
//go:noinline
func growStack(never int) byte { //nolint:unparam // the result keeps the array
	if never == 0 {
		return 0
	}
	var room [5 << 10]byte
	return room[never]
}

// Address is the client's; not valid where it has none.
func (c *Conn) Address() netip.Addr { return c.address }

// Read reads for net/http, and answers in its place what the fast lane can.
func (c *Conn) Read(p []byte) (int, error) { return c.from.Read(p) }

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.from.SetReadDeadline(t) }

// SetWriteDeadline bounds writes. TLS sets a deadline in the past after its last record, which is sent before.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if c.records != nil && !t.After(time.Now()) {
		_ = c.records.send(c.socket) // fails only when the client has left
	}
	return c.socket.SetWriteDeadline(t)
}

// Close closes the connection, after an answer in the fast lane that is in
// progress.
func (c *Conn) Close() error { return c.from.Close() }

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

// Write sends what was held back, and p with it, unless p must be held back and
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

// WriteBody writes a body whose headers are set and whose length is among them.
func WriteBody(w http.ResponseWriter, r *http.Request, body []byte) {
	const fits = 3 << 10 // into net/http's buffer, beside the headers
	c := Of(r)
	if c == nil || len(body) <= fits {
		_, _ = w.Write(body) // fails only when the client has left
		return
	}
	if r.ProtoMajor < 2 && len(body) > Uncounted { // of HTTP/2 each stream says so
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

// A socket notes when its client was last active, and since when it does not take
// what is written to it. idle.go judges by that.
type socket struct {
	net.Conn
	client  net.Addr // as a proxy names it; nil: the peer's
	onClose func()
	active  atomic.Int64 // Unix time in nanoseconds
	writing atomic.Int64 // when the write in progress began, as active; 0: none is
	busy    atomic.Bool  // net/http has a request that is not answered yet, or the connection is another protocol's
	calls   atomic.Int64 // of a protocol that has a server of its own, which are not answered yet
	streams streams      // of HTTP/2
}

// RemoteAddr returns the address of the client.
func (s *socket) RemoteAddr() net.Addr {
	if s.client != nil {
		return s.client
	}
	return s.Conn.RemoteAddr()
}

// Close closes the descriptor. It returns when that is closed.
func (s *socket) Close() error {
	defer s.onClose()
	return s.Conn.Close()
}

// Heard notes when something came from the client.
func (s *socket) MarkActive(at time.Time) { s.active.Store(at.UnixNano()) }

// Read notes the time of what it reads.
func (s *socket) Read(p []byte) (int, error) {
	if s.streams.isSlow.Load() && s.streams.isSlow.Swap(false) {
		time.Sleep(slowRead)
	}
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.MarkActive(time.Now())
	}
	return n, err
}

// SyscallConn is that of the connection below.
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	if c, ok := s.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Write writes what the kernel takes at once of a long p, and the rest in pieces, so that
// a client that reads slowly is told from one that does not read.
func (s *socket) Write(p []byte) (n int, err error) {
	defer s.writing.Store(0)
	if len(p) > writePiece {
		if n = writeAtOnce(s, p); n == len(p) {
			return n, nil
		}
	}
	for {
		s.writing.Store(time.Now().UnixNano())
		m, err := s.Conn.Write(p[n:min(len(p), n+writePiece)])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// WriteBuffers writes all of the pieces, and the first 64 KiB of the last one, in
// one system call, where the connection below can.
func (s *socket) WriteBuffers(pieces *net.Buffers) (int64, error) {
	defer s.writing.Store(0)
	var rest []byte
	if last := &(*pieces)[len(*pieces)-1]; len(*last) > writePiece {
		*last, rest = (*last)[:writePiece], (*last)[writePiece:]
	}
	s.writing.Store(time.Now().UnixNano())
	n, err := pieces.WriteTo(s.Conn)
	if err != nil || len(rest) == 0 {
		return n, err
	}
	m, err := s.Write(rest)
	return n + int64(m), err
}

// CloseWrite closes the connection to the client alone, as http.Server does
// before it leaves a client that is still sending.
func (s *socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
