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
	// n = 0 for the end of what the client sends. The body that is written behind a
	// head may be empty.
	TryRead(fd uintptr, p []byte) (n int, err error)
	TryWrite(fd uintptr, head, body []byte) (n int, err error)
	// Heard is told when something came that TryRead has read, at most once in each tenth of a
	// second.
	Heard(at time.Time)
}

// hearing is the time between two times that Heard is told: it looks for what another connection
// has displaced from the processor's caches.
const hearing = 100 * time.Millisecond

// listened is a connection that may be a Socket by its descriptor.
type listened interface {
	net.Conn
	syscall.Conn
	Heard(at time.Time)
}

// direct reads requests and writes answers during a socket's turns.
type direct struct {
	Socket                              // nil: there is none
	turn   func(fd uintptr) (done bool) // the connection's, kept for it would be made anew
	fd     uintptr                      // of the turn

	heard time.Time // what Heard was told last

	// What the turns are for, and what they came to.
	p   []byte
	n   int
	err error
}

// serve answers requests until one is not the lane's, and reads that into p.
func (d *direct) serve(p []byte) (n int, err error) {
	d.p, d.n, d.err = p, 0, nil
	if err = d.Turns(d.turn); err != nil {
		return 0, err
	}
	return d.n, d.err
}

// drain takes what has arrived. It is not done when nothing is left. A read that leaves room has taken all,
// except for the end of what the client sends, which may have come with that. So it is looked for at once where the
// connection's deadline is renewed, as behind a client's first requests, and otherwise when the client has said
// nothing for a while (deadlines.go).
func (c *Conn) drain(fd uintptr) (done bool) {
	d := &c.direct
	d.fd = fd
	h := hits.Get().(*Hit) //nolint:forcetypeassert // the pool has no others
	defer h.release(c)
	for renewed := false; ; {
		room := c.room(h.room[:min(len(h.room), len(d.p))])
		n, err := d.TryRead(fd, room)
		full := n == len(room)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			n, err = 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
		case n == 0:
			err = io.EOF
		default:
			now := time.Now()
			if now.Sub(d.heard) >= hearing {
				d.heard = now
				d.Heard(now)
			}
			n, err = c.process(h, d.p, room[:n], now)
			renewed = renewed || c.deadline.renewed.Equal(now)
		}
		if n > 0 || err != nil {
			d.n, d.err = n, err
			return true
		}
		if !renewed && !full && c.deadline.soon && c.held == nil {
			return false
		}
	}
}
