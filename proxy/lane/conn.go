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
	"github.com/tipcache/tipcache/proxy/record"
)

// A Conn is a client's connection that the lane serves. It wraps the connection that http.Server reads. A wrapper
// around it must forward Read, Close, SetReadDeadline and the states of http.Server.ConnState.
type Conn struct {
	net.Conn
	client *conn.Conn     // non-nil outside tests
	findID CallerIDFinder // finds the JSON-RPC id in a POST body; nil means bodies contain none

	// Each request uses these fields. They are adjacent to save cache misses.
	lane    *Lane
	phase   atomic.Int32
	open    bool            // the next bytes belong to the lane, not to net/http
	direct  direct          // without a Socket, package net reads and writes
	partial *partialRequest // nil if none is held

	servedLast bool // the lane served the previous request
	emptyLines int  // how many bytes of empty lines may follow that request

	deadline  deadlines
	sampling  record.Sampling // of the last request
	candidate candidate       // last unknown request
	request   heads.Request   // last request

	boundary boundary // bytes given to net/http since the lane was open
	ahead    pipeline // bytes that net/http reads before it reads the connection
}

// The phases of a connection. If Close is called while another goroutine is answering, that goroutine closes the
// connection.
const (
	waiting int32 = iota
	answering
	closing
	closed
)

// NewConn returns c with the lane.
func (l *Lane) NewConn(c net.Conn) *Conn {
	conn := &Conn{Conn: c, lane: l}
	conn.direct.Socket, conn.direct.onReadable = socketOf(c), conn.drain
	return conn
}

// State must be called from http.Server.ConnState with each state of the connection. The lane opens at StateNew, and at
// StateIdle if net/http has consumed its request. Without StateNew the lane stays closed.
func (c *Conn) State(s http.ConnState) {
	switch s {
	case http.StateNew:
		c.open, c.deadline.isNew = true, true
		c.deadline.since = time.Now()
	case http.StateIdle:
		c.reopen()
		c.deadline.isNew, c.deadline.renewed = false, time.Time{}
	case http.StateHijacked:
		c.request, c.candidate = heads.Request{}, candidate{} // frees memory: the other protocol may run for long
		c.lane.unseen.Delete(c)
	case http.StateClosed:
		c.lane.unseen.Delete(c)
	}
}

// reopen opens the lane if net/http has consumed exactly the bytes it was given. While a handler runs, net/http reads one
// byte to detect that the client disconnects. If it has read the first byte of the next request, it serves that one, and
// the lane may open after it.
func (c *Conn) reopen() {
	c.candidate.open = false
	switch excess, ok := c.boundary.excess(); {
	case !ok || excess > 1:
	case excess == 1:
		first := c.boundary.latest
		c.boundary = boundary{}
		c.boundary.addBytes([]byte{first})
	case !c.ahead.empty():
		c.boundary = boundary{}
	default:
		c.open = true
	}
}

// Read answers the requests that the lane knows, and returns all other bytes.
func (c *Conn) Read(p []byte) (int, error) {
	if !c.open || len(p) == 0 {
		return c.readOn(p)
	}
	n, err := c.serve(p)
	if n == 0 {
		return 0, err
	}
	return c.handOver(p, n), nil
}

// serve answers requests until one must go to net/http, and reads that one into p.
func (c *Conn) serve(p []byte) (n int, err error) {
	if c.direct.Socket != nil {
		n, err = c.direct.serve(p)
		for c.deadline.endProbe(c, err) {
			n, err = c.direct.serve(p)
		}
	} else {
		n, err = c.serveThrough(p)
	}
	switch {
	case errors.Is(err, errEnded):
		c.finish()
		err = io.EOF // net/http might respond to another error
	case err != nil && c.partial != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF)):
		text := c.partial.text[:c.partial.n]
		n, err = c.moveTo(p, text, len(text)), nil // net/http waits for the rest, or gets EOF
	}
	if err != nil {
		c.dropPartial()
	}
	return n, err
}

func (c *Conn) serveThrough(p []byte) (n int, err error) {
	for n == 0 && err == nil {
		buffer := c.readBuffer(p)
		if n, err = c.Conn.Read(buffer); n > 0 {
			h := hits.Get().(*Hit) //nolint:forcetypeassert // the pool has no others
			n, err = c.process(h, p, buffer[:n], time.Now())
			h.release(c)
		}
	}
	return n, err
}

// errEnded means that the connection was closed, a write failed, or the last response was sent.
var errEnded = errors.New("lane: the connection has ended")

// process answers the requests in text, or returns how many bytes in p net/http must get. It does not close the
// connection, because Close waits until the callback of OnReadable returns.
func (c *Conn) process(h *Hit, p, text []byte, now time.Time) (int, error) {
	if c.partial != nil {
		c.partial.n += len(text)
		text = c.partial.text[:c.partial.n]
	}
	left, first, result := c.answerAll(h, text, now)
	switch result {
	case incomplete:
		if c.holdPartial(left, now) {
			return 0, nil
		}
		first = len(left)
	case ended:
		return 0, errEnded
	case notServed, served:
	}
	return c.moveTo(p, left, first), nil
}

// answerAll answers the requests at the beginning of text in order. It returns the rest of text and the length of the
// first request in it.
func (c *Conn) answerAll(h *Hit, text []byte, now time.Time) (left []byte, first int, result outcome) {
	for result = served; result == served; {
		if text = c.skipEmptyLines(text); len(text) == 0 {
			break
		}
		n, verdict := c.request.Parse(unsafe.String(&text[0], len(text))) //nolint:gosec // not written before h is released
		first = n
		switch verdict {
		case heads.Unsupported:
			c.lane.requests.unknown.Inc()
			first, result = len(text), notServed
		case heads.Incomplete:
			result = incomplete
		case heads.Complete:
			if result = c.answer(h, now); result != served {
				break
			}
			text, first = text[n:], 0
			if c.request.Close {
				result = ended
			}
		}
	}
	return text, first, result
}

// skipEmptyLines removes empty lines before a request, as net/http does after a POST.
func (c *Conn) skipEmptyLines(text []byte) []byte {
	for c.emptyLines > 0 && len(text) > 0 && isLineEnd(text[0]) {
		text = text[1:]
		c.emptyLines--
	}
	return text
}

func isLineEnd(c byte) bool { return c == '\r' || c == '\n' }

// finish closes the connection, and completes a Close that was called during an answer.
func (c *Conn) finish() {
	_ = c.Conn.Close()
	if c.phase.CompareAndSwap(closing, closed) {
		c.lane.closings.Done()
	}
}

func (c *Conn) readOn(p []byte) (n int, err error) {
	if c.ahead.empty() {
		n, err = c.Conn.Read(p)
	} else {
		n = c.ahead.read(p)
	}
	c.boundary.addBytes(p[:n])
	return n, err
}

// handOver closes the lane, and returns how many bytes in p net/http gets. net/http skips four bytes of empty lines after a
// POST that it served, so it gets four more if the client's must be refused.
func (c *Conn) handOver(p []byte, n int) int {
	if c.servedLast && isLineEnd(p[0]) {
		c.ahead.prepend(append([]byte("\r\n\r\n"), p[:n]...), 0)
		n = c.ahead.read(p)
	}
	c.deadline.restore(c)
	c.open, c.boundary = false, boundary{}
	c.deadline.handOver(c)
	c.boundary.addBytes(p[:n])
	return n
}

// An outcome is the result of an attempt to answer a request.
type outcome int

const (
	notServed  outcome = iota // net/http must serve the request
	incomplete                // the rest of the request has not arrived
	served
	ended // the connection must be closed
)

// answer answers c.request if it is known and memory has the response.
func (c *Conn) answer(h *Hit, now time.Time) (result outcome) {
	a := &c.candidate
	a.open, c.sampling = false, record.Undecided
	if c.findID != nil && !c.excludeCallerID() {
		c.lane.requests.unknown.Inc()
		return notServed
	}
	table := c.lane.table.Load()
	h.key = c.request.AppendKey(h.key[:0])
	known := table.get(h.key)
	switch {
	case known == nil:
		c.lane.requests.unknown.Inc()
		a.table, a.key = table, append(a.key[:0], h.key...)
		a.open = c.request.Method != http.MethodPost || c.lane.recent.seenBefore(h.key)
		return notServed
	case c.lane.draining.Load():
		return notServed
	case !c.phase.CompareAndSwap(waiting, answering):
		return ended
	}
	defer func() {
		if !c.phase.CompareAndSwap(answering, waiting) { // Close was called
			result = ended
		}
	}()
	return c.serveKnown(h, known, now)
}

func (c *Conn) serveKnown(h *Hit, known Handler, now time.Time) outcome {
	h.Start, h.Request, h.Conn, h.Head, h.Body = now, &c.request, c, h.Head[:0], nil
	if !h.tryHandler(known) {
		c.lane.requests.declined.Inc()
		return notServed
	}
	c.lane.requests.answered.Inc()
	c.deadline.renew(c, h.Start)
	err := h.write()
	known.Done(h)
	c.servedLast, c.emptyLines = true, 0
	if c.request.Method == http.MethodPost {
		c.emptyLines = len("\r\n\r\n")
	}
	if err != nil {
		return ended
	}
	return served
}

// Close closes the connection after the response in progress. A second Close does not wait for the response.
func (c *Conn) Close() error {
	for {
		switch phase := c.phase.Load(); phase {
		case waiting:
			if c.phase.CompareAndSwap(waiting, closed) {
				return c.Conn.Close()
			}
		case answering:
			c.lane.closings.Add(1)
			if c.phase.CompareAndSwap(answering, closing) {
				return nil
			}
			c.lane.closings.Done()
		default:
			return c.Conn.Close()
		}
	}
}
