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
	shortcut Shortcut
}

// begin takes note of the bytes that net/http is given first.
func (n *candidate) begin(request []byte, found *look) {
	*n = candidate{look: *found}
	if found.known != nil || len(request) > maxRequest {
		return
	}
	if found.table.again(found.hash) {
		n.text = bytes.Clone(request)
	}
}

// remember keeps the request that net/http has consumed, if a handler has left a
// shortcut for it.
func (n *candidate) remember(c *Conn) {
	if n.shortcut != nil && int64(len(n.text)) == c.given.head+c.given.length {
		c.lane.remember(n.look.table, n.text, n.shortcut)
	}
	*n = candidate{}
}

// called takes note of what net/http has understood.
func (n *candidate) called(r *http.Request) {
	if !recognisable(r) {
		n.text = nil
	}
}

// Called is to be told every request that comes to the connection's handler,
// before it is handled.
func (c *Conn) Called(r *http.Request) {
	c.given.call(r)
	c.lines.called(r.Method == http.MethodPost)
	c.next.called(r)
}

// Wants tells a handler whether the request's Shortcut would be of use.
func (c *Conn) Wants() bool { return c.next.text != nil && !c.lane.draining.Load() }

// Remember has the request being handled answered by s when it comes again. It
// is to be called by its handler, and before that returns.
func (c *Conn) Remember(s Shortcut) { c.next.shortcut = s }
