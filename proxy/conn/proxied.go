package conn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// errNoProxy closes a connection that does not come from a trusted proxy.
var errNoProxy = errors.New("the peer is not a trusted proxy")

// readProxied reads the PROXY header of a new connection, and counts the connection against the client in it. It returns
// false if it has closed the connection.
func (l *Listener) readProxied(s *slot, deadline time.Time) (ok bool) {
	client, err := l.readHeader(s.conn, deadline)
	if err != nil {
		if l.ended.Err() == nil {
			l.refuseProxy(s.conn.Address(), err)
		}
		_ = s.conn.Close()
		return false
	}
	lane := l.o.Lane
	if l.o.TLS != nil { // the lane is above TLS
		lane = nil
	}
	if !l.assign(s, s.conn.from(client, lane)) {
		_ = s.conn.Close()
		return false
	}
	return true
}

// readHeader returns the address of the client, or of the proxy for the proxy's own connections, such as health checks.
func (l *Listener) readHeader(c *Conn, deadline time.Time) (client net.Addr, err error) {
	_ = c.SetReadDeadline(deadline)
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
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

// refuseProxy counts and logs a connection that is closed for lack of a trusted PROXY header.
func (l *Listener) refuseProxy(peer netip.Addr, why error) {
	l.metrics.closed.WithLabelValues("proxy").Inc()
	l.o.Logger.Debug("connection closed: no header of a trusted proxy", "peer", peer, "error", why)
}
