package web

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// Headers of our own.
const (
	HeightHeader    = "X-Block-Height"
	MinHeightHeader = "X-Min-Block-Height"
	RequestIDHeader = "X-Request-Id"
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
	Behind     time.Duration // how far the origin is behind the chain it follows; 0: it does not follow one
	CatchingUp bool          // the answer is of nodes that are behind their peers
	Seconds    bool          // freshness is meant in blocks, but no tip is known: Cache-Status says so
}

// Bodies keeps the bodies of answers in their content codings; *cache.Cache does.
type Bodies interface {
	// Encoded returns the content's body in a coding; not ok says that the plain
	// body should be sent, which it never says to those who must have the coding
	// unless that fails. What is encoded is kept with the entry of the key.
	Encoded(key string, content *cache.Content, coding cache.Coding, must bool) (body []byte, ok bool)
}

// A Responder writes answers.
type Responder struct {
	bodies   Bodies
	byOrigin bool // the answer to one origin is not that to another
}

// Respond writes an answer, or says that the client has it already.
func (rs *Responder) Respond(w http.ResponseWriter, r *http.Request, a *Answer) {
	e := a.Entry
	h := collect()
	if e.Link != "" {
		h.set("Link", e.Link)
	}
	rs.setVary(h, a.Vary)
	if e.Height > 0 {
		h.setInt(HeightHeader, e.Height)
	}
	a.freshness(h)
	if e.Status != http.StatusOK {
		h.write(w, r, e.Status, e.Type, e.Body)
		return
	}
	client := readAccepted(r.Header["Accept-Encoding"])
	coding := client.best(len(e.Body))
	if has, ok := clientHas(r.Header, e.ETag, coding); ok {
		h.setTag(e.ETag, has)
		h.writeTo(w.Header())
		w.WriteHeader(http.StatusNotModified)
		return
	}
	coding, body := rs.encoded(a, coding, client[cache.Identity] == 0)
	if coding != cache.Identity {
		h.set("Content-Encoding", coding.String())
	}
	h.setTag(e.ETag, coding)
	h.write(w, r, e.Status, e.Type, body)
}

// encoded gives the body in a coding; or plain while that is being made, unless
// the client must have it so.
func (rs *Responder) encoded(a *Answer, coding cache.Coding, must bool) (cache.Coding, []byte) {
	if body, ok := rs.bodies.Encoded(a.Key, a.Entry.Content, coding, must); ok {
		return coding, body
	}
	return cache.Identity, a.Entry.Body
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
	h.write(w, r, status, typ, body)
}

// write sends the headers collected, and the body to all who want one.
func (h *headers) write(w http.ResponseWriter, r *http.Request, status int, typ string, body []byte) {
	h.set("Content-Type", typ)
	h.setInt("Content-Length", int64(len(body)))
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeWhole(w, r, body)
	}
}
