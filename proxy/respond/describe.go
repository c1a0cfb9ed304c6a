package respond

import (
	"net/http"

	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/proxy/conn"
)

// AppendCacheStatus appends the value of Cache-Status.
func AppendCacheStatus(b []byte, a *Response) []byte { return a.appendStatus(b, a.lifetime()) }

// SetHeaders sets the headers that say where a response is from, how old it is, and at which block it was read.
func (rs *Responder) SetHeaders(to http.Header, a *Response) {
	h := collect()
	a.freshness(h, false)
	if a.Entry.Height > 0 && !a.NoHeight {
		h.setInt(HeightHeader, a.Entry.Height)
		a.setSession(h)
	}
	h.writeTo(to)
}

// SendBody writes a body that was composed from an entry, uncompressed. tag is its ETag: a client that has it gets 304 in place
// of 200.
func (rs *Responder) SendBody(w http.ResponseWriter, r *http.Request, a *Response, status int, tag string, body []byte) {
	rs.SetHeaders(w.Header(), a)
	h := collect()
	h.setBody(JSON, body)
	if status == http.StatusOK {
		h.set("Etag", tag)
		if _, has := clientHas(r.Header["If-None-Match"], tag, codings.Identity); has {
			status, body = http.StatusNotModified, nil
		}
	}
	rs.setVary(h, a.Vary, a.Session.Height > 0)
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead && len(body) > 0 {
		conn.WriteBody(w, r, body)
	}
}
