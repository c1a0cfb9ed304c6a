package lane

import (
	"errors"
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

	lane   *Lane
	direct *direct // nil: reads and writes are package net's
	phase  atomic.Int32

	open     bool     // nothing of what is read next is net/http's
	given    boundary // what net/http was given since the lane was open last
	lines    preamble
	deadline deadlines
	found    look // of what was read last
	next     candidate
}

// The phases of a connection. While an answer is in progress, Close on another
// goroutine leaves the closing to the goroutine that answers.
const (
	waiting int32 = iota
	answering
	closing
	closed
)

// NewConn wraps a connection.
func (l *Lane) NewConn(c net.Conn) *Conn {
	conn := &Conn{Conn: c, lane: l}
	conn.direct = directly(conn)
	return conn
}

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
		c.lane.untrack(c)
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
	for c.open && len(p) > 0 {
		n, err := c.serve(p)
		if n == 0 {
			return 0, err
		}
		if n, err = c.handOver(p, n); n > 0 || err != nil {
			return n, err
		}
	}
	return c.readOn(p)
}

// serve answers requests until one is not the lane's, and reads that into p.
func (c *Conn) serve(p []byte) (n int, err error) {
	if c.direct != nil {
		n, err = c.direct.serve(p)
	} else {
		n, err = c.serveThrough(p)
	}
	if errors.Is(err, errUseless) {
		c.finish()
		err = io.EOF // other errors might be answered
	}
	return n, err
}

func (c *Conn) serveThrough(p []byte) (n int, err error) {
	for n == 0 && err == nil {
		if n, err = c.Conn.Read(p); n > 0 {
			n, err = c.take(p[:n], time.Now())
		}
	}
	return n, err
}

// errUseless is that of a connection on which an answer failed, or that is closed.
var errUseless = errors.New("lane: the connection is of no use any more")

// take answers what was read, or returns how many bytes of it net/http is to get.
// It does not close the connection: that would wait for the turn that it is part of.
func (c *Conn) take(request []byte, now time.Time) (n int, err error) {
	c.found = c.lane.look(request)
	switch c.answer(request, now) {
	case done:
		return 0, nil
	case failed:
		return 0, errUseless
	case notMine:
	}
	return len(request), nil
}

// finish closes the connection, also for a Close that has left that to the goroutine
// that answers.
func (c *Conn) finish() {
	_ = c.Conn.Close()
	if c.phase.CompareAndSwap(closing, closed) {
		c.lane.lingering.Done()
	}
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
func (c *Conn) handOver(p []byte, n int) (int, error) {
	n, err := c.lines.adjust(c.Conn, c.deadline.fresh, p, n)
	if n == 0 || err != nil {
		return 0, err
	}
	c.open, c.given = false, boundary{}
	c.deadline.handOver(c)
	c.next.begin(p[:n], &c.found)
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
func (c *Conn) answer(request []byte, now time.Time) (came attempt) {
	switch {
	case c.found.known == nil:
		c.lane.requests.unknown.Inc()
		return notMine
	case c.lane.draining.Load():
		return notMine
	case !c.phase.CompareAndSwap(waiting, answering):
		return failed
	}
	defer func() {
		if !c.phase.CompareAndSwap(answering, waiting) { // it was closed meanwhile
			came = failed
		}
	}()
	return c.hit(request, now)
}

func (c *Conn) hit(request []byte, now time.Time) attempt {
	found := &c.found
	h := hits.Get().(*Hit) //nolint:forcetypeassert // the pool has no others
	defer hits.Put(h)
	h.Start, h.Conn, h.Head, h.Body, h.ID = now, c, h.Head[:0], nil, nil
	if id := found.cuts.id; id >= 0 {
		value := found.cuts.at[id]
		h.ID = request[value.from:value.to]
	}
	if !h.answeredBy(found.known.shortcut) {
		c.lane.requests.declined.Inc()
		return notMine
	}
	c.lane.requests.answered.Inc()
	c.deadline.renew(c, h.Start)
	err := h.write()
	found.known.shortcut.Sent(h)
	c.lines.answered(found.known.post)
	if err != nil {
		return failed
	}
	return done
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
