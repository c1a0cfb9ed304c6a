package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// A conn is a connection that carries one exchange at a time.
type conn struct {
	net.Conn

	probe    probe
	owner    *Transport
	reader   *bufio.Reader
	writer   *bufio.Writer
	abort    func()    // makes reads and writes fail
	timed    bool      // a deadline is set
	head     int64     // remaining bytes of a response head; negative means no limit
	answered bool      // a byte of the response has arrived
	since    time.Time // when it became idle
	last     time.Time // when it becomes too old for another request
}

// newConn returns a connection. raw is c without TLS.
func newConn(t *Transport, c, raw net.Conn) *conn {
	n := &conn{Conn: c, owner: t, last: time.Now().Add(Age(t.maxAge))}
	n.abort = func() { _ = n.SetDeadline(past) }
	n.probe.init(raw)
	n.reader, n.writer = bufio.NewReader(n), bufio.NewWriter(n.Conn)
	return n
}

var (
	errHead = errors.New("response head is too long")

	// past is a deadline that aborts pending reads and writes.
	past = time.Unix(1, 0)
)

// maxInterim is the maximum number of interim responses (1xx) before a response.
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

// exchange sends a request and reads the head of its response. The exchange ends with the response's body. On an error,
// exchange closes the connection.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c.answered, c.head = false, maxHead
	stop := c.limit(ctx)
	response, err := c.roundTrip(r)
	if err != nil {
		stop()
		_ = c.Close()
		return nil, err
	}
	c.head = -1
	response.Body = &body{
		ReadCloser: response.Body, conn: c, ctx: ctx, stop: stop,
		last:  response.Close || response.StatusCode == http.StatusSwitchingProtocols,
		sized: response.ContentLength >= 0,
	}
	return response, nil
}

// limit makes reads and writes fail when ctx ends.
func (c *conn) limit(ctx context.Context) (stop func() bool) {
	if lazy, ok := ctx.(*upstream.LazyDeadline); ok {
		_ = c.SetDeadline(lazy.At())
		c.timed = true
		return lazy.AfterCancel(c.abort)
	}
	if c.timed {
		_ = c.SetDeadline(time.Time{})
		c.timed = false
	}
	return context.AfterFunc(ctx, c.abort)
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

// A body is the body of a response. When it has been read to its end, the connection becomes idle, or is closed if it is too old.
// If the body is closed before, the connection is closed as well.
type body struct {
	io.ReadCloser

	conn  *conn           // nil after end
	ctx   context.Context //nolint:containedctx // the request's context
	stop  func() bool
	last  bool // the connection cannot be reused
	sized bool // the length is known
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
		if !errors.Is(err, io.EOF) {
			err = contextError(b.ctx, err)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.conn != nil && b.sized {
		var one [1]byte
		_, _ = b.Read(one[:0]) // finds the end of a body without bytes; one in chunks could wait for the next chunk
	}
	b.end(false)
	return nil
}

// end makes the connection idle if it can be reused, and closes it otherwise.
func (b *body) end(complete bool) {
	c := b.conn
	if c == nil {
		return
	}
	b.conn = nil
	if b.stop() && complete && !b.last && c.reader.Buffered() == 0 && time.Now().Before(c.last) {
		c.owner.idle.put(c)
		return
	}
	_ = c.Close()
}
