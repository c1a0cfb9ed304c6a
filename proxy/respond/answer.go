// Package respond writes responses: headers, validators and content codings.
//
//   - answer.go writes a response from the cache; freshness.go says how old it is and how long it is fresh;
//   - headers.go collects its headers;
//   - negotiate.go reads what the client accepts and already has, and chooses a coding;
//   - uncached.go writes responses that are not from the cache.
package respond

import (
	"bytes"
	"cmp"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/session"
)

// A Response is an entry of the cache with the values of its headers.
type Response struct {
	cache.Result
	Key          string        // key of the query; encoded bodies are cached with its entry
	Policy       cache.Policy  // policy of the query
	Now          time.Time     // time of the headers
	Until        time.Time     // end of freshness; zero means Policy.Fresh after the entry was read
	SharedUntil  time.Time     // when shared caches must stop serving the response (s-maxage); zero means the end of freshness
	Vary         string        // request headers that the response depends on, in addition to the ones of every response
	Control      string        // Cache-Control; "" derives one from the lifetime
	Private      bool          // derive "private"
	Immutable    bool          // derive "immutable" for a 200 that never changes; the URL alone must identify it
	EVMBlock     int64         // newest block of the execution chain that the response includes; 0 if unknown
	Behind       time.Duration // how far the origin is behind the chain that it follows; 0 if it follows none
	CatchingUp   bool          // the nodes are behind their peers
	Unconfirmed  bool          // a node contradicts the newest block, which may have been rolled back
	Backing      cache.Entry   // backing storage for Entry, to save an allocation
	Seconds      bool          // freshness is measured in seconds, because no tip is known
	ExtraHeaders []ExtraHeader // headers that only this interface has, set with the height
	NoHeight     bool          // the entry does not depend on its height, which is then not sent
	Next         string        // URL of the next poll; "" if the request is no poll
	Unchanged    bool          // the poll ended before the response changed
	Session      session.Token // session of the client after the response, set with the height; zero for none
	Reset        bool          // the block of the client's session was rolled back
	Body         []byte        // JSON body that was composed from the entry; nil means the entry's body
	Status       int           // status of Body; 0 means 200
	Tag          string        // validator of Body, if its status is 200; "" means that Body is for this client alone
}

// An ExtraHeader is a response header that only one interface has.
type ExtraHeader struct {
	Name  string // in canonical form
	Value string // "" for the height of the entry
}

// Respond writes a response, or 304 if the client has it. It releases the entry of a, so that a client that reads
// slowly keeps only the body that is being written.
func (rs *Responder) Respond(w http.ResponseWriter, r *http.Request, a *Response) {
	head := r.Method == http.MethodHead
	out := rs.Render(a, r.Header["Accept-Encoding"], r.Header["If-None-Match"], head, nil)
	out.headers.writeTo(w.Header())
	w.WriteHeader(out.Status)
	if !head {
		conn.WriteBody(w, r, out.Body)
	}
}

// A Rendering is a response as it is sent. AppendTo or WriteTo ends it.
type Rendering struct {
	Status  int
	Body    []byte // also of a response to HEAD
	headers *headers
}

// Render returns the response to these request headers, with the states of the rate limits. It releases the entry of a.
func (rs *Responder) Render(a *Response, accepted, tags []string, head bool, rateLimits []limits.Status) Rendering {
	h, from := collect(), preferences{readAccepted(accepted), tags, head}
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

// render collects the headers of a response and returns its status and body.
func (rs *Responder) render(h *headers, a *Response, from *preferences) (status int, body []byte) {
	e := a.Entry
	a.freshness(h)
	status, body = e.Status, e.Body
	switch {
	case a.Body != nil:
		status, body = a.composed(h, from.tags)
	case a.Unchanged:
		status, body = http.StatusNoContent, nil
	case status == http.StatusOK:
		status, body = rs.negotiate(h, a, from)
	default:
		h.setBody(e.Type, body)
	}
	if a.Next != "" {
		h.set("Link", "<"+a.Next+`>; rel="next"`)
	} else if e.Link != "" {
		h.set("Link", e.Link)
	}
	if a.Body == nil || a.Tag != "" {
		rs.setVary(h, a.Vary, a.Session.Height > 0)
	} else if rs.byOrigin {
		h.set("Vary", "Origin")
	}
	if e.Height > 0 && !a.NoHeight {
		h.setInt(HeightHeader, e.Height)
		for _, l := range a.ExtraHeaders {
			if l.Value == "" {
				h.setInt(l.Name, e.Height)
			} else {
				h.set(l.Name, l.Value)
			}
		}
		a.setSession(h)
	}
	if a.EVMBlock > 0 {
		h.setInt(EVMBlockHeader, a.EVMBlock)
	}
	return status, body
}

// composed returns the status and the body of a composed response, or 304 if the client has it.
func (a *Response) composed(h *headers, tags []string) (status int, body []byte) {
	if status = cmp.Or(a.Status, http.StatusOK); status == http.StatusOK && a.Tag != "" {
		h.set("Etag", a.Tag)
		if _, has := clientHas(tags, a.Tag, codings.Identity); has {
			return http.StatusNotModified, nil
		}
	}
	h.setBody(JSON, a.Body)
	return status, a.Body
}

func (a *Response) setSession(h *headers) {
	if a.Session.Height > 0 {
		h.finish(a.Session.AppendTo(h.begin(session.Header)))
	}
	if a.Reset {
		h.set(session.ResetHeader, "true")
	}
}

// setBody sets the headers that describe the body.
func (h *headers) setBody(typ string, body []byte) {
	h.setInt("Content-Length", int64(len(body)))
	h.set("Content-Type", typ)
}
