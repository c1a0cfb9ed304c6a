package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// A conn is a connection that carries one exchange at a time.
type conn struct {
	net.Conn

	raw      net.Conn // below TLS
	owner    *Transport
	reader   *bufio.Reader
	writer   *bufio.Writer
	head     int64     // bytes that may still be read of a head; below 0 there is no limit
	answered bool      // a byte of the response has arrived
	since    time.Time // when it became idle
}

func newConn(t *Transport, c, raw net.Conn) *conn {
	n := &conn{Conn: c, raw: raw, owner: t}
	n.reader, n.writer = bufio.NewReader(n), bufio.NewWriter(n.Conn)
	return n
}

var (
	errHead = errors.New("the response's head is too long")

	// past is a deadline that ends what is under way.
	past = time.Unix(1, 0)
)

// maxInterim is how many interim responses (1xx) precede a response at most.
const maxInterim = 5

// Read implements io.Reader for the buffer.
func (c *conn) Read(p []byte) (int, error) {
	if c.head == 0 {
		return 0, errHead
	}
	if c.head > 0 {
		p = p[:min(int64(len(p)), c.head)]
	}
	n, err := c.Conn.Read(p)
	if c.head > 0 {
		c.head -= int64(n)
	}
	c.answered = c.answered || n > 0
	return n, err
}

// exchange sends a request and reads the head of its response, whose body ends the exchange. The
// connection is closed on an error.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c.answered, c.head = false, c.owner.maxHead
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) })
	response, err := c.roundTrip(r)
	if err != nil {
		stop()
		_ = c.Close()
		return nil, err
	}
	c.head = -1
	response.Body = &body{ReadCloser: response.Body, conn: c, ctx: ctx, stop: stop, last: response.Close || response.StatusCode == http.StatusSwitchingProtocols}
	return response, nil
}

func (c *conn) roundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Write(c.writer); err != nil {
		return nil, err
	}
	if err := c.writer.Flush(); err != nil {
		return nil, err
	}
	for range maxInterim + 1 {
		response, err := http.ReadResponse(c.reader, r)
		if err != nil || response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols {
			return response, err
		}
	}
	return nil, errors.New("too many interim responses")
}

// A body is the body of a response. Once it was read to its end the connection is idle; a body that
// is closed before costs the connection.
type body struct {
	io.ReadCloser

	conn *conn           // nil once it was given back
	ctx  context.Context //nolint:containedctx // of the request whose body this is
	stop func() bool
	last bool // the connection serves no further request
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
		if !errors.Is(err, io.EOF) {
			err = ended(b.ctx, err)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.conn != nil {
		var one [1]byte
		_, _ = b.Read(one[:0]) // finds the end of a body without bytes
	}
	b.end(false)
	return nil
}

// end gives the connection back where it can serve another request, and closes it otherwise.
func (b *body) end(complete bool) {
	c := b.conn
	if c == nil {
		return
	}
	b.conn = nil
	if b.stop() && complete && !b.last && c.reader.Buffered() == 0 {
		c.owner.idle.put(c)
		return
	}
	_ = c.Close()
}
