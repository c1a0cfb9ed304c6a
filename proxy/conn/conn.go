// Package conn accepts clients' connections, and reserves memory for request bodies and unread responses.
//
//   - listener.go accepts connections and gives each a slot; evict.go closes some if all slots are taken;
//   - opener.go does TLS handshakes; certificate.go has the certificate; proxied.go reads the headers by which layer-4 proxies
//     name their clients;
//   - conn.go sends a response in one system call; secure.go adds TLS;
//   - socket.go detects clients that are idle or do not read;
//   - multiplexed.go serves HTTP/2 streams; streams.go reserves memory for them and for gRPC calls;
//   - outgoing.go and responses.go reserve memory for responses that clients have not read yet, requests.go for request bodies;
//   - revoked.go ends connections and streams whose API key is removed, or that an access rule denies.
//
// Active clients have priority over idle ones:
//
//   - If all slots are taken, connections are closed: first the longest stalled ones, whose clients do not read, then the
//     longest idle ones. A connection is idle if no request is in progress; event streams are not idle.
//   - Once more than half of the slots are taken, an address is limited to a share. A client over its share loses a stalled
//     or idle connection, or the new one.
//   - If no connection can be closed, one client waits for a slot, and the others wait in the kernel's queue.
package conn

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/upstream/account"
)

// A Conn is a client's connection that sends a response in one system call. net/http alone would send the first 4 KiB
// separately, in a packet of its own. Use it for http.Server's listener. Handlers get it by Of, if Context is the
// server's ConnContext.
type Conn struct {
	*socket
	transport  transport  // the socket, or TLS on it
	carriesTLS bool       // Read and Write carry TLS records instead of HTTP
	records    *records   // collects TLS records; nil without TLS
	source     net.Conn   // Read reads from it: the lane, or the transport
	laneConn   LaneConn   // nil if the lane does not read requests
	lane       Lane       // may be nil
	address    netip.Addr // of the client; the zero Addr if unknown
	seen       session.Seen

	buffer *writeBuffer // bytes written but not sent; nil while nothing is buffered
	pieces [2][]byte
}

type transport interface {
	net.Conn
	WriteBuffers(pieces *net.Buffers) (int64, error)
	CloseWrite() error
}

// writeBuffer fits net/http's buffer twice: once when it is full, and once for the rest of the response.
type writeBuffer struct {
	text    []byte
	storage [2 * 4 << 10]byte
}

var buffers = sync.Pool{New: func() any { return new(writeBuffer) }}

// New wraps a connection. lane, onClose and memory may be nil. onClose is called once after the connection is closed.
// memory accounts for the HTTP/2 and gRPC streams of the connection.
func New(c net.Conn, lane Lane, memory *account.Account, onClose func()) *Conn {
	s := &socket{Conn: c, streams: streams{memory: memory}}
	s.onClose = sync.OnceFunc(func() {
		s.streams.close()
		if onClose != nil {
			onClose()
		}
	})
	s.MarkActive(time.Now())
	return newConn(s, s, lane)
}

func newConn(s *socket, on transport, lane Lane) *Conn {
	conn := &Conn{socket: s, transport: on, source: on}
	if peer, ok := s.RemoteAddr().(*net.TCPAddr); ok {
		conn.address = peer.AddrPort().Addr().Unmap().WithZone("")
	}
	if lane != nil {
		conn.lane, conn.laneConn = lane, lane.Wrap(conn, on)
	}
	if conn.laneConn != nil { // nil for a gRPC lane, which does not read requests
		conn.source = conn.laneConn
	}
	return conn
}

// from returns a connection on the same socket, with the client's address as a proxy reported it. c must have no lane,
// and must no longer be used.
func (c *Conn) from(client net.Addr, lane Lane) *Conn {
	c.socket.client = client
	return newConn(c.socket, c.socket, lane)
}

// A Lane answers requests on connections in place of their handlers.
type Lane interface {
	// Wrap returns the connection from which http.Server reads requests. below is the transport of the client's
	// connection.
	Wrap(client *Conn, below net.Conn) LaneConn
}

// A LaneConn is a client's connection with a lane.
type LaneConn interface {
	net.Conn
	State(s http.ConnState)
}

// Lane returns the lane of the connection, or nil. c may be nil.
func (c *Conn) Lane() Lane {
	if c == nil {
		return nil
	}
	return c.lane
}

// LaneConn returns the connection from which the lane reads HTTP/1 requests, or nil.
func (c *Conn) LaneConn() LaneConn { return c.laneConn }

// CarriesTLS reports whether Read and Write carry TLS records instead of HTTP.
func (c *Conn) CarriesTLS() bool { return c.carriesTLS }

// Seen returns what the client has seen on the connection, or nil if c is nil.
func (c *Conn) Seen() *session.Seen {
	if c == nil {
		return nil
	}
	return &c.seen
}

type connKey struct{}

// IsKey reports whether key is the context key under which Of finds the connection.
func IsKey(key any) bool { return key == connKey{} }

// Context implements the ConnContext field of [http.Server].
func Context(ctx context.Context, c net.Conn) context.Context {
	if ours := Accepted(c); ours != nil {
		if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
			ours.streams.writeTimeout = server.WriteTimeout
		}
		return context.WithValue(ctx, connKey{}, ours)
	}
	return ctx
}

// Accepted returns the Conn in a connection that a [Listener] has accepted, or nil. It records whether the Conn carries TLS.
func Accepted(c net.Conn) *Conn {
	ours, carriesTLS := unwrap(c)
	if ours != nil {
		ours.carriesTLS = carriesTLS
	}
	return ours
}

// State implements the ConnState field of [http.Server].
func State(c net.Conn, state http.ConnState) {
	ours, carriesTLS := unwrap(c)
	if ours == nil {
		return
	}
	if state == http.StateIdle { // the idle timeout starts after the response
		ours.MarkActive(time.Now())
		ours.streams.unparkAll()
	}
	ours.busy.Store(state == http.StateActive || state == http.StateHijacked)
	if ours.laneConn != nil && !carriesTLS {
		ours.laneConn.State(state)
	}
}

// unwrap returns the Conn in a connection of http.Server, or nil. carriesTLS reports whether http.Server reads TLS on it.
func unwrap(c net.Conn) (ours *Conn, carriesTLS bool) {
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

// Of returns the connection of a request, or nil if our listener did not accept it.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// RemoteAddr returns the client's address. It also grows the goroutine's stack: http.Server calls it first on a new
// connection's goroutine, whose stack is still small.
func (c *Conn) RemoteAddr() net.Addr {
	growStack(0)
	return c.socket.RemoteAddr()
}

// growStack grows the calling goroutine's stack to the 8 KiB that a response from memory needs, by its large frame.
// Without it, copying stacks as calls get deeper took 10% of the CPU with new connections.
//
//go:noinline
func growStack(never int) byte { //nolint:unparam // the result keeps the array
	if never == 0 {
		return 0
	}
	var room [5 << 10]byte
	return room[never]
}

// Address returns the client's address, or the zero Addr if it is unknown.
func (c *Conn) Address() netip.Addr { return c.address }

// Read reads from the client. Requests that the fast lane answers are not returned.
func (c *Conn) Read(p []byte) (int, error) { return c.source.Read(p) }

// SetReadDeadline sets the deadline of reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.source.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of writes. Before a deadline in the past, which TLS sets after its last record, it
// sends the collected records.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if c.records != nil && !t.After(time.Now()) {
		c.records.sendLast(c.socket)
	}
	return c.socket.SetWriteDeadline(t)
}

// Close closes the connection after a fast lane response that is in progress.
func (c *Conn) Close() error { return c.source.Close() }

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error { return c.transport.CloseWrite() }

// Abort closes the connection at once. The kernel drops unsent bytes.
func (c *Conn) Abort() error {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return c.socket.Close()
}

// Hold makes the connection count as one with a request in progress until release is called. c may be nil.
func (c *Conn) Hold() (release func()) {
	if c == nil {
		return func() {}
	}
	c.calls.Add(1)
	return func() {
		c.MarkActive(time.Now())
		c.calls.Add(-1)
	}
}

// Write buffers p if buffering is on and p fits. Otherwise it sends the buffer and p.
func (c *Conn) Write(p []byte) (int, error) {
	b := c.buffer
	switch {
	case c.records != nil:
		return c.records.write(c.socket, p)
	case b == nil || len(b.text)+len(p) > cap(b.text) && len(b.text) == 0:
		return c.transport.Write(p)
	case len(b.text)+len(p) <= cap(b.text):
		b.text = append(b.text, p...)
		return len(p), nil
	}
	c.pieces = [2][]byte{b.text, p}
	pieces := net.Buffers(c.pieces[:])
	n, err := c.transport.WriteBuffers(&pieces)
	n -= int64(len(b.text))
	b.text, c.pieces = b.text[:0], [2][]byte{}
	return int(max(0, n)), err
}

// flush sends the buffer and ends buffering. After a failure it closes the connection, because net/http believes that the
// bytes were sent.
func (c *Conn) flush() {
	b := c.buffer
	c.buffer = nil
	if len(b.text) > 0 {
		if _, err := c.transport.Write(b.text); err != nil {
			_ = c.Close()
		}
	}
	buffers.Put(b)
}

// HeaderBytes returns the size of headers: their names and values.
func HeaderBytes(h http.Header) (size int) {
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// WriteBody writes a body. The headers must be set, including Content-Length.
func WriteBody(w http.ResponseWriter, r *http.Request, body []byte) {
	const fits = 3 << 10 // in net/http's buffer, together with the headers
	c := Of(r)
	if c == nil || len(body) <= fits {
		_, _ = w.Write(body) // fails only if the client has disconnected
		return
	}
	if r.ProtoMajor < 2 && len(body) > MaxUncounted { // for HTTP/2, streamWriter does this
		c.BeginBody(body)
		defer c.EndBody(body)
	}
	if c.carriesTLS {
		_, _ = w.Write(body)
		return
	}
	c.buffer = buffers.Get().(*writeBuffer) //nolint:forcetypeassert // the pool has no others
	c.buffer.text = c.buffer.storage[:0]
	defer c.flush()
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush()
}
