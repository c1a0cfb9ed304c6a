package respond

import (
	"bytes"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
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

// SendBody writes a body that was composed from an entry. tag is its ETag.
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

// A Rendering is a response as it is sent. AppendTo or WriteTo ends it.
type Rendering struct {
	Status  int
	Body    []byte // also of a response to HEAD
	headers *headers
}

// Render returns the response for a client that sent these header values, with the states of its rate limits. It releases
// the entry of a.
func (rs *Responder) Render(a *Response, codings, tags []string, head bool, rateLimits []limits.Status) Rendering {
	h, from := collect(), preferences{readAccepted(codings), tags, head}
	status, body := rs.render(h, a, &from)
	a.Entry, a.Backing = nil, cache.Entry{}
	for i := range rateLimits {
		if status := &rateLimits[i]; status.Limited() {
			h.finish(status.AppendText(h.begin(limits.StatusHeader)))
			h.finish(status.AppendPolicy(h.begin(limits.PolicyHeader)))
		}
	}
	return Rendering{status, body, h}
}

// AppendTo appends the headers as HTTP/1 sends them. ok is false if one of them contains a line break.
func (r *Rendering) AppendTo(b []byte) (text []byte, ok bool) {
	h, start := r.headers, 0
	for i := range h.n {
		b = append(append(b, h.name[i]...), ": "...)
		b = append(append(b, h.text[start:h.end[i]]...), "\r\n"...)
		start = h.end[i]
	}
	ok = bytes.IndexByte(h.text, '\n') < 0 && bytes.IndexByte(h.text, '\r') < 0
	collectors.Put(h)
	return b, ok
}

// WriteTo adds the headers and the request id to the headers of an http.ResponseWriter.
func (r *Rendering) WriteTo(h http.Header, id string) {
	r.headers.finish(append(r.headers.begin(RequestIDHeader), id...))
	r.headers.writeTo(h)
}
