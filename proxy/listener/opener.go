package listener

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/tipcache/tipcache/proxy/conn"
)

// An opener reads PROXY headers and does TLS handshakes concurrently. It has a goroutine that accepts connections and
// one for each connection that is being opened. Close waits for these.
type opener struct {
	listener *Listener
	ready    chan accepted
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// run accepts connections until the listener is closed.
func (s *opener) run() {
	for {
		slot, err := s.listener.accept(nil)
		if err == nil {
			s.listener.works.Go(func() { s.open(slot) })
			continue
		}
		if !s.send(accepted{nil, err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// open reads the PROXY header and does the TLS handshake, as configured, and sends the connection to accept.
func (s *opener) open(slot *slot) {
	l := s.listener
	if l.o.Proxies != nil && !l.readProxied(slot) {
		return
	}
	opened := net.Conn(slot.conn)
	if l.o.TLS != nil {
		secured, on, err := conn.Secure(l.ended, slot.conn, l.o.TLS, l.o.Lane, l.o.Header)
		if err != nil {
			l.o.Logger.Debug("TLS handshake failed", "client", slot.client, "error", err)
			return
		}
		l.mu.Lock()
		slot.conn = on // on the same socket
		l.mu.Unlock()
		opened = secured
	}
	if !s.send(accepted{opened, nil}) {
		_ = opened.Close()
	}
}

// send makes accept return a. It returns false if the listener is closed.
func (s *opener) send(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.listener.ended.Done():
		return false
	}
}

func (s *opener) accept() (net.Conn, error) {
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.listener.ended.Done():
		return nil, net.ErrClosed
	}
}

// errNoProxy closes a connection that does not come from a trusted proxy.
var errNoProxy = errors.New("the peer is not a trusted proxy")

// readProxied reads the PROXY header of a new connection, and counts the connection against the client in it. It returns
// false if it has closed the connection.
func (l *Listener) readProxied(s *slot) (ok bool) {
	client, err := l.readHeader(s.conn)
	if err != nil {
		if l.ended.Err() == nil {
			l.refuseProxy(s, err)
		}
		_ = s.conn.Close()
		return false
	}
	lane := l.o.Lane
	if l.o.TLS != nil { // the lane is above TLS
		lane = nil
	}
	if !l.move(s, s.conn.From(client, lane)) {
		_ = s.conn.Close()
		return false
	}
	return true
}

// readHeader returns the address of the client, or of the proxy for the proxy's own connections, such as health checks.
func (l *Listener) readHeader(c *conn.Conn) (client net.Addr, err error) {
	if l.o.Header > 0 {
		_ = c.SetReadDeadline(time.Now().Add(l.o.Header))
		defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	}
	defer context.AfterFunc(l.ended, func() { _ = c.Close() })()
	text, err := readHeaderText(c)
	if err != nil {
		return nil, err
	}
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	if source, _, ok := h.TCPAddrs(); ok && !h.Command.IsLocal() {
		return source, nil
	}
	return c.RemoteAddr(), nil
}

// maxHeader is the maximum length of a version 1 header, in bytes.
const maxHeader = 107

// readHeaderText reads a header and no byte after it. The lane or TLS reads these from the socket.
func readHeaderText(from io.Reader) ([]byte, error) {
	text := make([]byte, len(proxyproto.SIGV2), maxHeader)
	_, err := io.ReadFull(from, text)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(text, proxyproto.SIGV2): // followed by version, protocol and the length of the rest
		text = text[:len(text)+4]
		if _, err = io.ReadFull(from, text[len(text)-4:]); err == nil {
			rest := make([]byte, binary.BigEndian.Uint16(text[len(text)-2:]))
			_, err = io.ReadFull(from, rest)
			text = append(text, rest...)
		}
		return text, err
	case !bytes.HasPrefix(text, proxyproto.SIGV1):
		return nil, proxyproto.ErrNoProxyProtocol
	}
	for text[len(text)-1] != '\n' && len(text) < maxHeader && err == nil {
		text = text[:len(text)+1]
		_, err = io.ReadFull(from, text[len(text)-1:])
	}
	return text, err
}

// move counts a slot against the client of another connection on the same socket. It returns false if the client has used
// its share and none of its connections can be closed.
func (l *Listener) move(s *slot, to *conn.Conn) (ok bool) {
	l.mu.Lock()
	if _, open := l.slots[s]; !open {
		l.mu.Unlock()
		return false
	}
	l.releaseShare(s)
	moved := slotFor(to.RemoteAddr())
	s.conn, s.address, s.client = to, moved.address, moved.client
	exceeds := l.isAtShare(s)
	l.perClient[s.client]++
	l.mu.Unlock()
	return !exceeds || l.evictFor(s)
}

// refuseProxy counts and logs a connection that is closed for lack of a trusted PROXY header.
func (l *Listener) refuseProxy(s *slot, why error) {
	l.metrics.closed.WithLabelValues("proxy").Inc()
	l.o.Logger.Debug("connection closed: no header of a trusted proxy", "peer", s.address, "error", why)
}
