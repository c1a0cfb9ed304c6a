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

// errNoProxy is the reason to close the connection of a peer that is no trusted proxy.
var errNoProxy = errors.New("the peer is not a trusted proxy")

// readProxied reads the header by which a proxy names the client of a new connection, which is counted as that client's from
// then on. It returns false if it has closed the connection.
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
	if l.o.TLS != nil { // which is below it
		lane = nil
	}
	if !l.move(s, s.conn.From(client, lane)) {
		_ = s.conn.Close()
		return false
	}
	return true
}

// readHeader returns the address of the client, that of the proxy for a connection that is its own, such as a health check.
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

// maxHeader is the longest header of version 1, in bytes.
const maxHeader = 107

// readHeaderText reads a header and nothing behind it, which the lane and TLS read from the socket.
func readHeaderText(from io.Reader) ([]byte, error) {
	text := make([]byte, len(proxyproto.SIGV2), maxHeader)
	_, err := io.ReadFull(from, text)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(text, proxyproto.SIGV2): // the version, the protocol and the length of the rest follow
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

// move counts a slot as that of the client of another connection on the same socket. It returns false if the client holds
// its share and none of its connections can be closed.
func (l *Listener) move(s *slot, to *conn.Conn) (ok bool) {
	l.mu.Lock()
	if _, open := l.taken[s]; !open {
		l.mu.Unlock()
		return false
	}
	l.unhold(s)
	is := slotFor(to.RemoteAddr())
	s.conn, s.address, s.client = to, is.address, is.client
	exceeds := l.isAtShare(s)
	l.held[s.client]++
	l.mu.Unlock()
	return !exceeds || l.makeRoomFor(s)
}

// refuseProxy counts and logs a connection that is closed because no trusted proxy names its client.
func (l *Listener) refuseProxy(s *slot, why error) {
	l.metrics.closed.WithLabelValues("proxy").Inc()
	l.o.Logger.Debug("connection closed: no header of a trusted proxy", "peer", s.address, "error", why)
}
