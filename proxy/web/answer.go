package web

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
)

// Headers of our own.
const (
	HeightHeader    = "X-Block-Height"
	MinHeightHeader = "X-Min-Block-Height"
	EVMBlockHeader  = "X-Evm-Block"
	MinEVMHeader    = "X-Min-Evm-Block"
	RequestIDHeader = "X-Request-Id"
	UnknownHeader   = "X-Unknown-Parameters" // names of the query that were ignored, and were probably meant
)

// JSON is the media type of most bodies.
const JSON = "application/json"

// An Answer is content that came through the cache, with what the headers say
// about it.
type Answer struct {
	cache.Result
	Key        string        // the query's: of the entry that what is encoded is kept with
	Policy     cache.Policy  // the query's, for the remaining lifetime
	Now        time.Time     // when the headers hold
	Until      time.Time     // when the answer ceases to be fresh; zero: as the policy says by time
	Vary       string        // request headers the answer depends on, beside those of every answer
	Control    string        // Cache-Control; "" derives one from the lifetime
	Private    bool          // of the derived one: not for caches that others ask
	EVMBlock   int64         // newest block of the execution chain that the answer holds at; 0: none is known
	Behind     time.Duration // how far the origin is behind the chain it follows; 0: it does not follow one
	CatchingUp bool          // the answer is of nodes that are behind their peers
	Own        cache.Entry   // room for an Entry that is made for this answer
	Seconds    bool          // freshness is meant in blocks, but no tip is known: Cache-Status says so
	More       []Line        // headers of the interface's own, where the height is told
	NoHeight   bool          // the entry's height is when it was read, not what it says: it is not told
}

// A Line is a header of an answer.
type Line struct {
	Name  string // in canonical form
	Value string // "" for the height of the answer
}

// Bodies keeps the bodies of answers in their content codings; *cache.Cache does.
type Bodies interface {
	// Encoded returns the content's body in a coding; not ok says that the plain
	// body should be sent, which it never says to those who must have the coding
	// unless that fails. What is encoded is kept with the entry of the key.
	Encoded(key string, content *cache.Content, coding codings.Coding, must bool) (body []byte, ok bool)
	// Made returns the coding that Encoded would give the body in, and the body if
	// that was made before.
	Made(content *cache.Content, coding codings.Coding, must bool) (body []byte, as codings.Coding)
}

// A Responder writes answers.
type Responder struct {
	bodies   Bodies
	byOrigin bool // the answer to one origin is not that to another
}

// An asker is what of a request decides the form of its answer.
type asker struct {
	codings accepted
	tags    []string // If-None-Match
	head    bool
}

func askerOf(r *http.Request) asker {
	return asker{readAccepted(r.Header["Accept-Encoding"]), r.Header["If-None-Match"], r.Method == http.MethodHead}
}

// Respond writes an answer, or says that the client has it already.
func (rs *Responder) Respond(w http.ResponseWriter, r *http.Request, a *Answer) {
	h, from := collect(), askerOf(r)
	status, body := rs.render(h, a, &from)
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if !from.head {
		writeWhole(w, r, body)
	}
}

// render collects the headers of an answer, in their order, and returns the
// status and the body that go with them.
func (rs *Responder) render(h *headers, a *Answer, from *asker) (status int, body []byte) {
	e := a.Entry
	a.freshness(h)
	status, body = e.Status, e.Body
	if status == http.StatusOK {
		status, body = rs.negotiate(h, a, from)
	} else {
		h.setBody(e.Type, body)
	}
	if e.Link != "" {
		h.set("Link", e.Link)
	}
	rs.setVary(h, a.Vary)
	if e.Height > 0 && !a.NoHeight {
		h.setInt(HeightHeader, e.Height)
		h.setLines(a.More, e.Height)
	}
	if a.EVMBlock > 0 {
		h.setInt(EVMBlockHeader, a.EVMBlock)
	}
	return status, body
}

// SetHeight tells a height on an answer that did not come through the cache.
func SetHeight(to http.Header, height int64, more []Line) {
	text := strconv.FormatInt(height, 10)
	to.Set(HeightHeader, text)
	for _, l := range more {
		to.Set(l.Name, cmp.Or(l.Value, text))
	}
}

// setLines sets headers of the interface's own.
func (h *headers) setLines(lines []Line, height int64) {
	for _, l := range lines {
		if l.Value == "" {
			h.setInt(l.Name, height)
		} else {
			h.set(l.Name, l.Value)
		}
	}
}

// negotiate chooses the coding, or finds that the client has the content.
func (rs *Responder) negotiate(h *headers, a *Answer, from *asker) (status int, body []byte) {
	e := a.Entry
	coding := from.codings.best(len(e.Body))
	if has, ok := clientHas(from.tags, e.ETag, coding); ok {
		h.setTag(e.ETag, has)
		return http.StatusNotModified, nil
	}
	must := from.codings[codings.Identity] == 0
	if from.head {
		return http.StatusOK, rs.describe(h, a, coding, must)
	}
	coding, body = rs.encoded(a, coding, must)
	if coding != codings.Identity {
		h.set("Content-Encoding", coding.String())
	}
	h.setBody(e.Type, body)
	h.setTag(e.ETag, coding)
	return http.StatusOK, body
}

// describe collects the headers that a GET would get, for a HEAD. No body is made
// for that; the length of one that was never made is not told.
func (rs *Responder) describe(h *headers, a *Answer, coding codings.Coding, must bool) (body []byte) {
	body, coding = rs.bodies.Made(a.Entry.Content, coding, must)
	if coding != codings.Identity {
		h.set("Content-Encoding", coding.String())
	}
	if body != nil {
		h.setBody(a.Entry.Type, body)
	} else {
		h.set("Content-Type", a.Entry.Type)
	}
	h.setTag(a.Entry.ETag, coding)
	return body
}

// encoded gives the body in a coding; or plain while that is being made, unless
// the client must have it so.
func (rs *Responder) encoded(a *Answer, coding codings.Coding, must bool) (codings.Coding, []byte) {
	if body, ok := rs.bodies.Encoded(a.Key, a.Entry.Content, coding, must); ok {
		return coding, body
	}
	return codings.Identity, a.Entry.Body
}

// setVary names the request headers that choose between answers of one URL.
func (rs *Responder) setVary(h *headers, own string) {
	text := h.begin("Vary")
	if own != "" {
		text = append(append(text, own...), ", "...)
	}
	text = append(text, "Accept-Encoding"...)
	if rs.byOrigin {
		text = append(text, ", Origin"...)
	}
	h.finish(text)
}

// Send writes a body that did not come through the cache and must not be kept.
func Send(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	h := collect()
	h.set("Cache-Control", "no-store")
	h.setBody(typ, body)
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeWhole(w, r, body)
	}
}

// setBody says what the body is.
func (h *headers) setBody(typ string, body []byte) {
	h.setInt("Content-Length", int64(len(body)))
	h.set("Content-Type", typ)
}
