package lane

import (
	"bytes"
	"net/http"
)

// A candidate is a request that net/http was given, and may be remembered when
// it is done.
type candidate struct {
	look     look
	text     []byte // the bytes; nil: they are not to be remembered
	header   http.Header
	shortcut Shortcut

	// How a client spells the headers that vary is learned from a request like the
	// one in which they were seen first: its own bytes are gone by then, and never
	// come again.
	sample  []byte // to learn from
	curious int    // how often more there is to be learned from
}

// maxCurious bounds what is spent on a connection for headers that cannot be
// learned.
const maxCurious = 3

// begin takes note of the bytes that net/http is given first.
func (n *candidate) begin(request []byte, found *look) {
	*n = candidate{look: *found, curious: n.curious}
	if found.known != nil || len(request) > maxRequest {
		return
	}
	if found.table.again(found.hash) {
		n.text = bytes.Clone(request)
	}
	if n.curious > 0 && n.curious <= maxCurious {
		n.sample = bytes.Clone(request)
	}
}

// remember keeps the request that net/http has consumed, if a handler has left a
// shortcut for it.
func (n *candidate) remember(c *Conn) {
	if n.shortcut != nil && int64(len(n.text)) == c.given.head+c.given.length {
		c.lane.remember(n.look.table, n.text, c.given.head, n.header, n.shortcut)
	}
	*n = candidate{curious: n.curious}
}

// called takes note of what net/http has understood.
func (n *candidate) called(r *http.Request, names *spellings) {
	if n.header = r.Header; !recognisable(r) {
		n.text = nil
	}
	if n.sample != nil {
		names.learnFrom(n.sample, r.Header)
		n.sample = nil
	}
	if n.curious <= maxCurious && n.look.cuts.n < variesBy(r.Header) {
		n.curious++
	}
}

// variesBy counts the headers that may have been cut out of a request.
func variesBy(header http.Header) (n int) {
	for _, name := range varying {
		if len(header[name]) == 1 {
			n++
		}
	}
	return n
}

// Called is to be told every request that comes to the connection's handler,
// before it is handled.
func (c *Conn) Called(r *http.Request) {
	c.given.call(r)
	c.lines.called(r.Method == http.MethodPost)
	c.next.called(r, &c.lane.names)
}

// Wants tells a handler whether the request's Shortcut would be of use.
func (c *Conn) Wants() bool { return c.next.text != nil && !c.lane.draining.Load() }

// Remember has the request being handled answered by s when it comes again. It
// is to be called by its handler, and before that returns.
func (c *Conn) Remember(s Shortcut) { c.next.shortcut = s }
