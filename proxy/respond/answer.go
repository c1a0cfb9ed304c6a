// Package respond writes responses: headers, validators and content codings.
//
//   - answer.go writes a response from the cache, and says how old it is and how long it is fresh;
//   - headers.go collects its headers; describe.go sets them for interfaces that write the body themselves;
//   - negotiate.go finds out whether the client has it already, and which coding the client gets; accept.go reads Accept;
//   - uncached.go writes responses that are not from the cache.
package respond

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
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
	Body         []byte        // JSON body of a 200 for this client alone, sent without a validator; nil means the entry's body
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

// render collects the headers of a response and returns its status and body.
func (rs *Responder) render(h *headers, a *Response, from *preferences) (status int, body []byte) {
	e := a.Entry
	a.freshness(h, true)
	status, body = e.Status, e.Body
	switch {
	case a.Body != nil:
		status, body = http.StatusOK, a.Body
		h.setBody(JSON, body)
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
	if a.Body == nil {
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

// PollLifetime is how long shared caches may reuse any response to a poll: the time within which clients that poll
// together send their requests. If nginx could not store the response, its proxy_cache_lock would let the waiting
// clients through one after another.
const PollLifetime = "max-age=1"

// OwnAnswer is the Cache-Control of a response that depends on the client, or on what it has seen: only its own
// browser may keep it, and must revalidate it before use.
const OwnAnswer = "private, no-cache"

// forever is the lifetime of responses that never change.
const forever = 365 * 24 * time.Hour

// longest is the max-age of responses that never change. After a chain is reset, or a response gets another shape, other
// caches must not serve the old one for longer.
const longest = 24 * time.Hour

// freshness sets Age, Cache-Control (RFC 9111) and Cache-Status (RFC 9211): how old the response is, how long it stays
// fresh, and where it is from.
func (a *Response) freshness(h *headers, allowImmutable bool) {
	left, age := a.lifetime(), int64(0)
	if a.Next == "" && (a.Outcome != cache.Miss || a.Collapsed) { // Age says that the origin was not read for this request
		age = max(0, int64(a.Now.Sub(a.Entry.ReadAt)/time.Second))
		h.setInt("Age", age)
	}
	switch {
	case a.Next != "":
		h.set("Cache-Control", a.audience()+", "+PollLifetime)
	case a.Control != "":
		h.set("Cache-Control", a.Control)
	default:
		h.finish(a.appendControl(h.begin("Cache-Control"), left, age, allowImmutable))
	}
	h.finish(a.appendStatus(h.begin("Cache-Status"), left))
}

func (a *Response) appendControl(b []byte, left time.Duration, age int64, allowImmutable bool) []byte {
	b = append(append(b, a.audience()...), ", max-age="...)
	marked := a.Outcome == cache.StaleHit || a.Outcome == cache.StaleError || a.CatchingUp || a.Unconfirmed
	if left < time.Second || marked {
		left, age = 0, 0
	}
	// Caches subtract the Age, so max-age includes it.
	b = strconv.AppendInt(b, age+seconds(min(left, longest)), 10)
	switch {
	case a.Private:
	case !a.SharedUntil.IsZero(): // without the age: nginx ignores Age, and would keep the response too long
		b = append(b, ", s-maxage="...)
		b = strconv.AppendInt(b, seconds(max(0, min(left, a.SharedUntil.Sub(a.Now)))), 10)
	case a.Immutable && allowImmutable && left == forever && a.Entry.Status == http.StatusOK:
		b = append(b, ", immutable"...)
	}
	return b
}

func (a *Response) audience() string {
	if a.Private || a.Reset {
		return "private"
	}
	return "public"
}

// PastExpires reports whether the entry has expired at Now; the cache does not keep such an entry.
func (a *Response) PastExpires() bool {
	return a.Entry.Stamp().PastExpires(func() time.Time { return a.Now })
}

// lifetime returns how much longer the response is fresh. It is negative if the response is stale.
func (a *Response) lifetime() time.Duration {
	e, left := a.Entry, forever
	switch {
	case a.Policy.IsImmutable(e.Stamp()):
	case !a.Until.IsZero():
		left = a.Until.Sub(a.Now)
	default:
		left = a.Policy.Fresh - a.Now.Sub(e.ReadAt)
	}
	if !e.Expires.IsZero() {
		left = min(left, e.Expires.Sub(a.Now))
	}
	return left
}

func (a *Response) appendStatus(b []byte, left time.Duration) []byte {
	b = append(b, "tipcache"...)
	if a.Forward == "" {
		b = append(b, "; hit"...)
	} else {
		b = append(append(b, "; fwd="...), a.Forward...)
		if a.Outcome == cache.Miss && !a.PastExpires() {
			b = append(b, "; stored"...)
		}
		if a.Collapsed {
			b = append(b, "; collapsed"...)
		}
	}
	if left != forever {
		b = strconv.AppendInt(append(b, "; ttl="...), seconds(left), 10)
	}
	return a.appendDetail(b)
}

// appendDetail appends the detail of Cache-Status: the store, why a stale entry is served, and if freshness is in
// seconds.
func (a *Response) appendDetail(b []byte) []byte {
	without := b
	b = append(b, `; detail="`...)
	first := len(b)
	add := func(word string) { b = append(append(b, word...), ' ') }
	if a.Store != "" {
		add(a.Store)
	}
	switch a.Outcome {
	case cache.StaleHit:
		add("stale-while-revalidate")
	case cache.StaleError:
		add("stale-if-error")
	}
	if a.Seconds {
		add("seconds")
	}
	if a.CatchingUp {
		add("catching-up")
	}
	if a.Unconfirmed {
		add("unconfirmed")
	}
	if a.Behind > 0 {
		add("behind=" + a.Behind.Truncate(time.Second).String())
	}
	if len(b) == first {
		return without
	}
	b[len(b)-1] = '"' // in place of the last space
	return b
}

// seconds returns whole seconds, rounded down so that no stale response counts as fresh.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		s--
	}
	return s
}
