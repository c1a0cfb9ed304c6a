package lane

import (
	"bytes"
	"net/http"
)

// A candidate is a request that is not known, so that its handler can register it.
type candidate struct {
	table *table // that was in force
	key   []byte
	wants bool // net/http has the request, and its handler may leave one here
}

// Called must be called with every request that arrives at the connection's handler,
// before it is handled.
func (c *Conn) Called(r *http.Request) {
	c.given.call(r)
	c.lines.called(r.Method == http.MethodPost)
	c.candidate.wants = c.candidate.wants && c.given.calls == 1
}

// Wants tells a handler whether a Handler of the request would be of use.
func (c *Conn) Wants() bool { return c.candidate.wants && !c.lane.draining.Load() }

// Keep has requests of the same key answered by h, from the next one on. It must be
// called by the handler of net/http's, and before that returns.
func (c *Conn) Keep(r *http.Request, h Handler) {
	rest, ok := bytes.CutPrefix(c.candidate.key, []byte(r.Method+" "+r.RequestURI))
	if c.candidate.wants && ok && rest[0] == '\n' { // otherwise the response is not for this request
		c.candidate.table.put(string(c.candidate.key), h)
	}
}
