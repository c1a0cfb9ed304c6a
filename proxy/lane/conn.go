package lane

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/web"
)

// A Conn is a client's connection on which the lane answers. It wraps the
// connection below http.Server: what wraps it in turn hands Read, Close and
// SetReadDeadline on to it, and the states of http.Server.ConnState.
type Conn struct {
	net.Conn
	client *conn.Conn // nil in no product
	own    web.Own    // nil: nothing of a body is its caller's own

	// Each request meets these, in memory that other connections have displaced from the
	// processor's caches: they lie together.
	lane      *Lane
	phase     atomic.Int32
	open      bool       // nothing of what is read next is net/http's
	direct    direct     // without a Socket reads and writes are package net's
	held      *beginning // of a request; nil: none
	lines     preamble
	deadline  deadlines
	candidate candidate     // of the last request that was not known
	request   heads.Request // read last

	given boundary // what net/http was given since the lane was open last
	ahead pipeline // what it gets before what is read next
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
	conn.direct.Socket, conn.direct.turn = socketOf(c), conn.drain
	return conn
}

// State must be told every state of the connection, in http.Server.ConnState.
// The lane opens with a new connection and wherever net/http is done with the
// request before; a connection that does not announce itself as new has no lane.
func (c *Conn) State(s http.ConnState) {
	switch s {
	case http.StateNew:
		c.open, c.deadline.fresh = true, true
		c.deadline.began = time.Now()
	case http.StateIdle:
		c.reopen()
		c.deadline.fresh, c.deadline.renewed = false, time.Time{}
	case http.StateHijacked:
		c.request, c.candidate = heads.Request{}, candidate{} // which another protocol may last longer than
		c.lane.untrack(c)
	case http.StateClosed:
		c.lane.untrack(c)
	}
}

// reopen opens the lane if net/http has consumed just what it was given. A request
// of which it has the first byte is net/http's, and the lane may open behind it.
func (c *Conn) reopen() {
	c.candidate.wants = false
	switch ahead, ok := c.given.ahead(); {
	case !ok || ahead > 1:
	case ahead == 1:
		c.given = from(c.given.latest)
	case !c.ahead.empty():
		c.given = boundary{}
	default:
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
	if c.direct.Socket != nil {
		n, err = c.direct.serve(p)
		for c.deadline.silent(c, err) {
			n, err = c.direct.serve(p)
		}
	} else {
		n, err = c.serveThrough(p)
	}
	switch {
	case errors.Is(err, errUseless):
		c.finish()
		err = io.EOF // other errors might be answered
	case err != nil && c.held != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF)):
		n, err = c.giveUp(p), nil // net/http waits for the rest, or finds that there is none
	}
	if err != nil {
		c.drop()
	}
	return n, err
}

func (c *Conn) serveThrough(p []byte) (n int, err error) {
	for n == 0 && err == nil {
		room := c.room(p)
		if n, err = c.Conn.Read(room); n > 0 {
			h := hits.Get().(*Hit) //nolint:forcetypeassert // the pool has no others
			n, err = c.process(h, p, room[:n], time.Now())
			h.release(c)
		}
	}
	return n, err
}

// errUseless is that of a connection that ends: after an answer that is the last or has failed, or
// because it is closed.
var errUseless = errors.New("lane: the connection is of no use any more")

// process answers what was read, or returns how many bytes in p net/http is to get.
// It does not close the connection: that would wait for the turn that it is part of.
func (c *Conn) process(h *Hit, p, text []byte, now time.Time) (int, error) {
	if c.held != nil {
		text = c.held.more(len(text))
	}
	left, first, came := c.answerAll(h, text, now)
	switch came {
	case short:
		if c.hold(left, now) {
			return 0, nil
		}
		first = len(left)
	case failed:
		return 0, errUseless
	case notMine, done:
	}
	return c.release(p, left, first), nil
}

// answerAll answers the requests that a text begins with, one after the other, and returns what is left
// of it, and how much of that the first request is.
func (c *Conn) answerAll(h *Hit, text []byte, now time.Time) (left []byte, first int, came attempt) {
	for came = done; came == done && len(text) > 0; {
		n, verdict := c.request.Parse(unsafe.String(&text[0], len(text))) //nolint:gosec // which is not written before h is released
		first = n
		switch verdict {
		case heads.Odd:
			c.lane.requests.unknown.Inc()
			first, came = len(text), notMine
		case heads.Short:
			came = short
		case heads.Taken:
			if came = c.answer(h, now); came != done {
				break
			}
			text, first = text[n:], 0
			if c.request.Close {
				came = failed
			}
		}
	}
	return text, first, came
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
	if c.ahead.empty() {
		n, err = c.Conn.Read(p)
	} else {
		n = c.ahead.read(p)
	}
	c.given.give(p[:n])
	return n, err
}

// handOver shuts the lane and gives net/http the first n bytes in p, or as many
// as it returns: none if net/http would have passed over all of them.
func (c *Conn) handOver(p []byte, n int) (int, error) {
	c.deadline.wait(c)
	n, err := c.lines.adjust(c, p, n)
	if n == 0 || err != nil {
		return 0, err
	}
	c.open, c.given = false, boundary{}
	c.deadline.handOver(c)
	c.given.give(p[:n])
	return n, nil
}

// An attempt is the outcome of trying to answer a request.
type attempt int

const (
	notMine attempt = iota // net/http has to
	short                  // more of the request has to come
	done
	failed // the connection ends
)

// answer answers the request that was read if it is known and memory has the answer.
func (c *Conn) answer(h *Hit, now time.Time) (came attempt) {
	a := &c.candidate
	a.wants = false
	if c.own != nil && !c.cutOwn() {
		c.lane.requests.unknown.Inc()
		return notMine
	}
	table := c.lane.table.Load()
	h.key = c.request.AppendKey(h.key[:0])
	known := table.find(h.key)
	switch {
	case known == nil:
		c.lane.requests.unknown.Inc()
		a.table, a.key = table, append(a.key[:0], h.key...)
		a.wants = c.request.Method != http.MethodPost || c.lane.bodies.again(h.key)
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
	return c.answerBy(h, known, now)
}

func (c *Conn) answerBy(h *Hit, known Handler, now time.Time) attempt {
	h.Start, h.Request, h.Conn, h.Head, h.Body = now, &c.request, c, h.Head[:0], nil
	if !h.answeredBy(known) {
		c.lane.requests.declined.Inc()
		return notMine
	}
	c.lane.requests.answered.Inc()
	c.deadline.renew(c, h.Start)
	err := h.write()
	known.Sent(h)
	c.lines.answered(c.request.Method == http.MethodPost)
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
