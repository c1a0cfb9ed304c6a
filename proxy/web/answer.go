package web

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// An Answer is content that came through the cache, with what the headers say
// about it.
type Answer struct {
	cache.Result
	Key         string        // the query's: of the entry that what is encoded is kept with
	Policy      cache.Policy  // the query's, for the remaining lifetime
	Now         time.Time     // when the headers hold
	Until       time.Time     // when the answer ceases to be fresh; zero: as the policy says by time
	SharedUntil time.Time     // of the derived one: until when a cache that others ask may give the answer to them; zero: as long as it is fresh
	Vary        string        // request headers the answer depends on, beside those of every answer
	Control     string        // Cache-Control; "" derives one from the lifetime
	Private     bool          // of the derived one: not for caches that others ask
	Immutable   bool          // of the derived one: a 200 that never changes is called so, as its URL alone says what it is
	EVMBlock    int64         // newest block of the execution chain that the answer holds at; 0: none is known
	Behind      time.Duration // how far the origin is behind the chain it follows; 0: it does not follow one
	CatchingUp  bool          // the answer is of nodes that are behind their peers
	Unconfirmed bool          // a node contradicts the newest block: the chain may have been rolled back below the answer
	Own         cache.Entry   // room for an Entry that is made for this answer
	Seconds     bool          // freshness is meant in blocks, but no tip is known: Cache-Status says so
	More        []Line        // headers of the interface's own, where the height is told
	NoHeight    bool          // the entry's height is when it was read, not what it says: it is not told
	Next        string        // of an answer to a poll: the URL of the next one. Caches that others ask share such an answer for a second
	Unchanged   bool          // of an answer to a poll: the client has it
	Session     Token         // the client's from now on, told where the height is; zero: none
	Reset       bool          // the client's session was of a chain that was set back
	Made        []byte        // the body of a 200 in JSON that was made of the entry for this client alone: it has no validator, and is sent as it is; nil: the entry's is
}

// A Line is a header of an answer.
type Line struct {
	Name  string // in canonical form
	Value string // "" for the height of the answer
}

// Respond writes an answer, or says that the client has it already. What it writes is all that it keeps
// for a client that reads slowly: a has no entry any more.
func (rs *responder) Respond(w http.ResponseWriter, r *http.Request, a *Answer) {
	h, from := collect(), askerOf(r)
	status, body := rs.render(h, a, &from)
	a.forget()
	h.writeTo(w.Header())
	w.WriteHeader(status)
	if !from.head {
		writeWhole(w, r, body)
	}
}

// forget lets the entry of the answer go, which has its body in every form.
func (a *Answer) forget() { a.Entry, a.Own = nil, cache.Entry{} }

// render collects the headers of an answer, in their order, and returns the
// status and the body that go with them.
func (rs *responder) render(h *headers, a *Answer, from *asker) (status int, body []byte) {
	e := a.Entry
	a.freshness(h, true)
	status, body = e.Status, e.Body
	switch {
	case a.Made != nil:
		status, body = http.StatusOK, a.Made
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
	if a.Made == nil {
		rs.setVary(h, a.Vary, a.Session.Height > 0)
	} else if rs.byOrigin {
		h.set("Vary", "Origin")
	}
	if e.Height > 0 && !a.NoHeight {
		h.setInt(HeightHeader, e.Height)
		h.setLines(a.More, e.Height)
		a.setSession(h)
	}
	if a.EVMBlock > 0 {
		h.setInt(EVMBlockHeader, a.EVMBlock)
	}
	return status, body
}

// setSession says how far the client has seen the chain, with this answer.
func (a *Answer) setSession(h *headers) {
	if a.Session.Height > 0 {
		h.finish(a.Session.AppendTo(h.begin(SessionHeader)))
	}
	if a.Reset {
		h.set(ResetHeader, "true")
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

// setBody says what the body is.
func (h *headers) setBody(typ string, body []byte) {
	h.setInt("Content-Length", int64(len(body)))
	h.set("Content-Type", typ)
}

// PollLifetime is how long any answer to a poll may be shared: for as long as clients
// that poll together take to come. One that may not be kept would have nginx send those
// that wait at its lock one after another.
const PollLifetime = "max-age=1"

// OwnAnswer is the Cache-Control of an answer that depends on the client, or on what it has
// seen: its own browser alone may keep it, and asks again before it is used.
const OwnAnswer = "private, no-cache"

// forever is the lifetime told for what never changes.
const forever = 365 * 24 * time.Hour

// longest is how long others may keep what never changes: a chain that is reset,
// or an answer that gets another shape, must not live on with them.
const longest = 24 * time.Hour

// freshness sets the headers that say how old the answer is, how long it will
// serve and which part of the cache it came from: Age, Cache-Control (RFC
// 9111) and Cache-Status (RFC 9211).
func (a *Answer) freshness(h *headers, forGood bool) {
	left, age := a.lifetime(), int64(0)
	if a.Next == "" && (a.Outcome != cache.Miss || a.Collapsed) { // an Age says that the origin was not asked for this request
		age = max(0, int64(a.Now.Sub(a.Entry.ReadAt)/time.Second))
		h.setInt("Age", age)
	}
	switch {
	case a.Next != "":
		h.set("Cache-Control", a.audience()+", "+PollLifetime)
	case a.Control != "":
		h.set("Cache-Control", a.Control)
	default:
		h.finish(a.appendControl(h.begin("Cache-Control"), left, age, forGood))
	}
	h.finish(a.appendStatus(h.begin("Cache-Status"), left))
}

// appendControl renders the derived Cache-Control.
func (a *Answer) appendControl(b []byte, left time.Duration, age int64, forGood bool) []byte {
	b = append(append(b, a.audience()...), ", max-age="...)
	marked := a.Outcome == cache.StaleHit || a.Outcome == cache.StaleError || a.CatchingUp || a.Unconfirmed
	if left < time.Second || marked {
		left, age = 0, 0
	}
	// A cache behind us subtracts the Age it is told, so the age goes on top.
	b = strconv.AppendInt(b, age+seconds(min(left, longest)), 10)
	switch {
	case a.Private:
	case !a.SharedUntil.IsZero(): // not here: nginx does not look at the Age, and would keep the answer for that much longer
		b = append(b, ", s-maxage="...)
		b = strconv.AppendInt(b, seconds(max(0, min(left, a.SharedUntil.Sub(a.Now)))), 10)
	case a.Immutable && forGood && left == forever && a.Entry.Status == http.StatusOK:
		b = append(b, ", immutable"...)
	}
	return b
}

func (a *Answer) audience() string {
	if a.Private || a.Reset {
		return "private"
	}
	return "public"
}

// Expired reports whether the entry expires no later than now, so that the cache does not keep it.
func (a *Answer) Expired() bool { return a.Entry.Stamp().Expired(func() time.Time { return a.Now }) }

// lifetime is how much longer the answer is fresh; less than zero when it is
// stale.
func (a *Answer) lifetime() time.Duration {
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

// appendStatus renders Cache-Status.
func (a *Answer) appendStatus(b []byte, left time.Duration) []byte {
	b = append(b, "tipcache"...)
	if a.Forward == "" {
		b = append(b, "; hit"...)
	} else {
		b = append(append(b, "; fwd="...), a.Forward...)
		if a.Outcome == cache.Miss && !a.Expired() {
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

// appendDetail names the store, the leave taken to serve stale, and seconds
// where blocks were meant.
func (a *Answer) appendDetail(b []byte) []byte {
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

// seconds rounds down, so that nothing is called fresh that is not.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		s--
	}
	return s
}

// headers collects response headers and sets them with two allocations in
// all: the values are rendered into one text, and their slices cut from one
// array. Names must be in canonical form.
type headers struct {
	n     int
	name  [maxHeaders]string
	value [maxHeaders]string // the value where it was a text before: HTTP/2, whose tables have it, compares the same text fast; "" for another one
	end   [maxHeaders]int    // where the value ends in the text
	text  []byte
	room  [headerRoom]byte // the text's first home
}

const (
	maxHeaders = 24  // more are a programming error
	headerRoom = 480 // all values of an ordinary answer
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
	h.name[h.n], h.value[h.n] = name, ""
	return h.text
}

func (h *headers) finish(text []byte) {
	h.text = text
	h.end[h.n] = len(text)
	h.n++
}

func (h *headers) set(name, value string) {
	text := append(h.begin(name), value...)
	h.value[h.n] = value
	h.finish(text)
}

func (h *headers) setInt(name string, value int64) {
	h.finish(strconv.AppendInt(h.begin(name), value, 10))
}

// writeTo sets the headers collected, and must be the last that is done with h.
func (h *headers) writeTo(header http.Header) {
	text, start := string(h.text), 0
	values := make([]string, h.n)
	for i := range h.n {
		if values[i] = h.value[i]; values[i] == "" {
			values[i] = text[start:h.end[i]]
		}
		header[h.name[i]] = values[i : i+1 : i+1] // full: an append by others must not reach the next value
		start = h.end[i]
	}
	collectors.Put(h)
}
