package web

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"sync"
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

// headers collects response headers and sets them with two allocations in
// all: the values are rendered into one text, and their slices cut from one
// array. Names must be in canonical form.
type headers struct {
	n    int
	name [maxHeaders]string
	end  [maxHeaders]int // where the value ends in the text
	text []byte
	room [headerRoom]byte // the text's first home
}

const (
	maxHeaders = 20  // more are a programming error
	headerRoom = 400 // all values of an ordinary answer
)

var collectors = sync.Pool{New: func() any { return new(headers) }}

// collect begins a collection, which writeTo ends.
func collect() *headers {
	h := collectors.Get().(*headers) //nolint:forcetypeassert // the pool has no others
	h.n, h.text = 0, h.room[:0]
	return h
}

// begin starts the value of a header; what is appended to the result and
// given to finish is that value.
func (h *headers) begin(name string) []byte {
	h.name[h.n] = name
	return h.text
}

func (h *headers) finish(text []byte) {
	h.text = text
	h.end[h.n] = len(text)
	h.n++
}

func (h *headers) set(name, value string) {
	h.finish(append(h.begin(name), value...))
}

func (h *headers) setInt(name string, value int64) {
	h.finish(strconv.AppendInt(h.begin(name), value, 10))
}

// appendTo appends the headers as they are sent, and must be the last that is
// done with h. ok is false if one of them cannot be sent as it is.
func (h *headers) appendTo(b []byte) (text []byte, ok bool) {
	start := 0
	for i := range h.n {
		b = append(append(b, h.name[i]...), ": "...)
		b = append(append(b, h.text[start:h.end[i]]...), "\r\n"...)
		start = h.end[i]
	}
	ok = bytes.IndexByte(h.text, '\n') < 0 && bytes.IndexByte(h.text, '\r') < 0
	collectors.Put(h)
	return b, ok
}

// writeTo sets the headers collected, and must be the last that is done with h.
func (h *headers) writeTo(header http.Header) {
	text, start := string(h.text), 0
	values := make([]string, h.n)
	for i := range h.n {
		values[i] = text[start:h.end[i]]
		header[h.name[i]] = values[i : i+1 : i+1] // full: an append by others must not reach the next value
		start = h.end[i]
	}
	collectors.Put(h)
}
