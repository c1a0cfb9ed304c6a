package lane

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A Conn is a client's connection on which the lane answers. It wraps the
// connection below http.Server: what wraps it in turn hands Read, Close and
// SetReadDeadline on to it, and the states of http.Server.ConnState.
type Conn struct {
	net.Conn
	Owner any // what its user knows it by

	lane  *Lane
	phase atomic.Int32

	open     bool     // nothing of what is read next is net/http's
	given    boundary // what net/http was given since the lane was open last
	lines    leadIn
	deadline deadlines
	next     candidate
}

// The phases of a connection. Only while an answer is in progress does another
// goroutine's Close leave the closing to the one that answers.
const (
	waiting int32 = iota
	answering
	closing
	closed
)

// NewConn wraps a connection.
func (l *Lane) NewConn(c net.Conn) *Conn { return &Conn{Conn: c, lane: l} }

// State is to be told every state of the connection, in http.Server.ConnState.
// The lane opens with a new connection and wherever net/http is done with the
// request before; a connection that does not announce itself as new, as one below
// TLS does not, has no lane.
func (c *Conn) State(s http.ConnState) {
	switch s {
	case http.StateNew:
		c.open, c.deadline.fresh = true, true
		c.deadline.began = time.Now()
	case http.StateIdle:
		c.settle()
		c.deadline.fresh, c.deadline.renewed = false, time.Time{}
	case http.StateClosed, http.StateHijacked:
		c.lane.farewell(c)
	}
}

// settle opens the lane if net/http has consumed just what it was given. A request
// of which it has the first byte is net/http's, and the lane may open behind it.
func (c *Conn) settle() {
	switch ahead, ok := c.given.ahead(); {
	case !ok || ahead > 1:
	case ahead == 1:
		c.next.remember(c)
		c.given = from(c.given.latest)
	default:
		c.next.remember(c)
		c.open = true
	}
}

// Read answers what the lane can answer, and gives net/http everything else.
func (c *Conn) Read(p []byte) (int, error) {
	for c.open {
		n, err := c.Conn.Read(p)
		if n == 0 {
			return 0, err
		}
		found := c.lane.look(p[:n])
		switch c.answer(p[:n], &found) {
		case done:
		case failed:
			_ = c.Conn.Close()
			return 0, io.EOF // other errors might be answered
		case notMine:
			if n, err = c.handOver(p, n, &found); n > 0 || err != nil {
				return n, err
			}
		}
	}
	return c.readOn(p)
}

// readOn reads for net/http.
func (c *Conn) readOn(p []byte) (n int, err error) {
	if len(c.lines.ahead) > 0 {
		n = copy(p, c.lines.ahead)
		c.lines.ahead = c.lines.ahead[n:]
	} else {
		n, err = c.Conn.Read(p)
	}
	c.given.give(p[:n])
	return n, err
}

// handOver shuts the lane and gives net/http the first n bytes in p, or as many
// as it returns: none if net/http would have passed over all of them.
func (c *Conn) handOver(p []byte, n int, found *look) (int, error) {
	n, err := c.lines.adjust(c.Conn, c.deadline.fresh, p, n)
	if n == 0 || err != nil {
		return 0, err
	}
	c.open, c.given = false, boundary{}
	c.deadline.handOver(c)
	c.next.begin(p[:n], found)
	c.given.give(p[:n])
	return n, nil
}

// What came of trying to answer.
type attempt int

const (
	notMine attempt = iota // net/http has to
	done
	failed // the connection is of no use any more
)

// answer answers a request if it is known and memory has the answer.
func (c *Conn) answer(request []byte, found *look) (came attempt) {
	switch {
	case found.known == nil:
		c.lane.requests[unknown].Inc()
		return notMine
	case c.lane.draining.Load():
		return notMine
	case !c.phase.CompareAndSwap(waiting, answering):
		return failed
	}
	defer func() {
		if !c.phase.CompareAndSwap(answering, waiting) { // it was closed meanwhile
			came = failed
			_ = c.Conn.Close()
			c.lane.lingering.Done()
		}
	}()
	return c.hit(request, found)
}

func (c *Conn) hit(request []byte, found *look) attempt {
	h := hits.Get().(*Hit) //nolint:forcetypeassert // the pool has no others
	defer hits.Put(h)
	h.Start, h.Conn, h.Head, h.Body, h.ID = time.Now(), c, h.Head[:0], nil, nil
	if id := found.cuts.id; id >= 0 {
		value := found.cuts.at[id]
		h.ID = request[value.from:value.to]
	}
	if !h.answeredBy(found.known.shortcut) {
		c.lane.requests[declined].Inc()
		return notMine
	}
	c.lane.requests[answered].Inc()
	c.deadline.renew(c, h.Start)
	err := h.writeTo(c.Conn)
	found.known.shortcut.Sent(h)
	c.lines.answered(found.known.post)
	if err != nil {
		return failed
	}
	return done
}

// answeredBy declines for a shortcut that panics: net/http's handler is about to
// do so, too, and what it says is logged and answered.
func (h *Hit) answeredBy(s Shortcut) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return s.Answer(h)
}

// A buffersWriter is a connection around one that can write several pieces at
// once, which net.Buffers does not see.
type buffersWriter interface {
	WriteBuffers(pieces *net.Buffers) (int64, error)
}

// writeTo writes the answer in one system call. What is short is copied for that.
func (h *Hit) writeTo(conn net.Conn) (err error) {
	const short = 4 << 10
	if len(h.Body) <= short {
		h.Head = append(h.Head, h.Body...)
		_, err = conn.Write(h.Head)
		return err
	}
	h.pieces = [2][]byte{h.Head, h.Body}
	h.buffers = h.pieces[:]
	if whole, ok := conn.(buffersWriter); ok {
		_, err = whole.WriteBuffers(&h.buffers)
	} else {
		_, err = h.buffers.WriteTo(conn)
	}
	h.pieces = [2][]byte{}
	return err
}

// Close closes the connection, or has it closed once the answer in progress is
// written. Closing it again does not wait for that.
func (c *Conn) Close() error {
	for {
		switch phase := c.phase.Load(); phase {
		case waiting:
			if c.phase.CompareAndSwap(waiting, closed) {
				return c.Conn.Close()
			}
		case answering:
			c.lane.lingering.Add(1)
			if c.phase.CompareAndSwap(answering, closing) {
				return nil
			}
			c.lane.lingering.Done()
		default:
			return c.Conn.Close()
		}
	}
}
