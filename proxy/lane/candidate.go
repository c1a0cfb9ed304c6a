package lane

import (
	"bytes"
	"net/http"
)

// A candidate is an unknown request for which net/http's handler may register a Handler.
type candidate struct {
	table *table // in use when the request arrived
	key   []byte
	open  bool // net/http is serving the request, and its handler may register one
}

// BeginRequest must be called with each request before net/http's handler serves it.
func (c *Conn) BeginRequest(r *http.Request) {
	c.boundary.addRequest(r)
	c.servedLast, c.emptyLines = false, 0
	c.candidate.open = c.candidate.open && c.boundary.requests == 1
}

// WantsHandler reports whether PutHandler would have an effect for the current request.
func (c *Conn) WantsHandler() bool { return c.candidate.open }

// PutHandler registers h for later requests with the key of r. net/http's handler must call it before it returns.
func (c *Conn) PutHandler(r *http.Request, h Handler) {
	rest, ok := bytes.CutPrefix(c.candidate.key, []byte(r.Method+" "+r.RequestURI))
	if c.candidate.open && ok && rest[0] == '\n' { // otherwise the candidate is another request
		c.candidate.table.put(string(c.candidate.key), h)
	}
}
