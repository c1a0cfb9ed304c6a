package lane

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// A Socket is a connection below the lane that can be read and written without
// waiting. Package net locks and unlocks a connection, and tells the scheduler of a
// system call that may block, for each read and write; a Socket is locked once for
// many of them.
type Socket interface {
	net.Conn
	// Turns calls turn until it is done: at once, and then whenever something may
	// have arrived. It fails as Read does, after the deadline or when the connection
	// is closed. The descriptor is good for a turn.
	Turns(turn func(fd uintptr) (done bool)) error
	// TryRead and TryWrite are a read and a write during a turn, of at least one
	// byte. The error is syscall.EAGAIN where they would have to wait, and nil with
	// n = 0 for the end of what the client sends.
	TryRead(fd uintptr, p []byte) (n int, err error)
	TryWrite(fd uintptr, p []byte) (n int, err error)
	// Heard is told when something came that TryRead has read.
	Heard(at time.Time)
}

// listened is a connection that may be a Socket by its descriptor.
type listened interface {
	net.Conn
	syscall.Conn
	Heard(at time.Time)
}

// direct reads requests and writes answers during a socket's turns.
type direct struct {
	Socket
	turn func(fd uintptr) (done bool) // the connection's, kept for it would be made anew
	fd   uintptr                      // of the turn

	// What the turns are for, and what they came to.
	p   []byte
	n   int
	err error
}

// directly gives nil for a connection that can be no Socket.
func directly(c *Conn) *direct {
	if s := socketOf(c.Conn); s != nil {
		return &direct{Socket: s, turn: c.drain}
	}
	return nil
}

// serve answers requests until one is not the lane's, and reads that into p.
func (d *direct) serve(p []byte) (n int, err error) {
	d.p, d.n, d.err = p, 0, nil
	if err = d.Turns(d.turn); err != nil {
		return 0, err
	}
	return d.n, d.err
}

// drain takes what has arrived. It is not done when nothing is left.
func (c *Conn) drain(fd uintptr) (done bool) {
	d := c.direct
	d.fd = fd
	for d.n == 0 && d.err == nil {
		n, err := d.TryRead(fd, c.room(d.p))
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			d.err = &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
		case n == 0:
			d.err = io.EOF
		default:
			now := time.Now()
			d.Heard(now)
			d.n, d.err = c.process(d.p, n, now)
		}
	}
	return true
}

// write writes as much as the socket takes at once, and has package net wait to
// write the rest.
func (d *direct) write(p []byte) error {
	n, err := d.TryWrite(d.fd, p)
	if err == nil && n == len(p) {
		return nil
	}
	_, err = d.Write(p[max(0, n):])
	return err
}
