package lane

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// A Socket is a connection that can be read and written without blocking. For each read and write, package net locks a
// connection and tells the scheduler that the system call may block. A Socket is locked once for many of them.
type Socket interface {
	net.Conn
	// OnReadable calls f until it returns true: at once, and then whenever the socket may be readable. It fails as Read
	// does, after the deadline or when the connection is closed. fd is valid during the call.
	OnReadable(f func(fd uintptr) (done bool)) error
	// TryRead and TryWrite read and write at least one byte during a call of f. They return syscall.EAGAIN instead of
	// blocking. TryRead returns 0 and nil at EOF. body may be empty.
	TryRead(fd uintptr, p []byte) (n int, err error)
	TryWrite(fd uintptr, head, body []byte) (n int, err error)
	// MarkActive records that TryRead has read bytes. It is called at most once per activityInterval.
	MarkActive(at time.Time)
}

// activityInterval is the minimum time between two calls of MarkActive, which cost a cache miss.
const activityInterval = 100 * time.Millisecond

// A syscallConn is a connection whose descriptor can implement Socket.
type syscallConn interface {
	net.Conn
	syscall.Conn
	MarkActive(at time.Time)
}

// direct reads requests and writes responses in the callbacks of a Socket.
type direct struct {
	Socket                                  // nil if the connection has none
	onReadable func(fd uintptr) (done bool) // the connection's drain; stored to save an allocation
	fd         uintptr                      // valid during onReadable

	activeAt time.Time // last call of MarkActive

	// Argument and results of onReadable.
	p   []byte
	n   int
	err error
}

// serve answers requests until one must go to net/http, and reads that one into p.
func (d *direct) serve(p []byte) (n int, err error) {
	d.p, d.n, d.err = p, 0, nil
	if err = d.OnReadable(d.onReadable); err != nil {
		return 0, err
	}
	return d.n, d.err
}

// drain answers the requests that have arrived, and returns false when no bytes are left. A read that does not fill the
// buffer has read everything except a possible EOF. After drain has renewed the deadline, it reads again to see an EOF.
// Otherwise the lane sees an EOF at probeTimeout (deadlines.go).
func (c *Conn) drain(fd uintptr) (done bool) {
	d := &c.direct
	d.fd = fd
	h := hits.Get().(*Hit) //nolint:forcetypeassert // the pool has no others
	defer h.release(c)
	for renewed := false; ; {
		buffer := c.readBuffer(h.buffer[:min(len(h.buffer), len(d.p))])
		n, err := d.TryRead(fd, buffer)
		full := n == len(buffer)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			n, err = 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
		case n == 0:
			err = io.EOF
		default:
			now := time.Now()
			if now.Sub(d.activeAt) >= activityInterval {
				d.activeAt = now
				d.MarkActive(now)
			}
			n, err = c.process(h, d.p, buffer[:n], now)
			renewed = renewed || c.deadline.renewed.Equal(now)
		}
		if n > 0 || err != nil {
			d.n, d.err = n, err
			return true
		}
		if !renewed && !full && c.deadline.probing && c.partial == nil {
			return false
		}
	}
}
