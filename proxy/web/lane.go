package web

import (
	"bytes"
	"net"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
)

// A Lane answers requests that memory can answer in place of their handlers, as these would. Package
// lane has one, and everything works without. This file is what it has to do with the stack.
type Lane interface {
	// Wrap gives the connection that http.Server is to read: below carries the requests of its
	// client's connection.
	Wrap(client *Conn, below net.Conn) LaneConn
	// PlaceOf is where the answer to a request may be left that came on a connection of the lane's, nil for nowhere.
	PlaceOf(r *http.Request, on LaneConn) Place
	// Answer answers a client's request of HTTP/2 where it can.
	Answer(client *Conn, w http.ResponseWriter, r *http.Request) bool
	// Forget forgets all answers: what they were made by has been replaced.
	Forget()
}

// A CallLane is the lane of a listener of gRPC, which has a server of its own.
type CallLane interface {
	Lane
	// Arrive takes up a call that begins with its metadata, before its message has come; keyed says
	// that it needs a key. It is nil where the client may not make it, or the lane has no part in it:
	// the handler judges it then.
	Arrive(s *Stack, client *Conn, method string, metadata map[string][]string, keyed bool, start time.Time) Call
}

// A Call is one that the lane may answer. It is for the time until Release.
type Call interface {
	Place // of its answer, once its message is known
	// Find finds the answer by the message, which must not change until Release. Without one nothing
	// is counted, and the handler answers.
	Find(message []byte) (f Found, ok bool)
	// End is to be called after Find has found the answer, and that has been sent, or could not be.
	End(size int, err error)
	Release()
}

// A Found is what the lane has found for a call.
type Found struct {
	By        Replayer // that was left behind
	Record    *Record
	Answer    *Answer
	Standings *limits.Standings
}

// An Own finds what of the body of a POST is its caller's own: the answer has it, and depends on it in
// nothing else, if the interface says so of a body that is the same but for that. It is not ok where
// nothing is. It is asked of each request, so that it has to be fast and need not be sure.
type Own func(body string) (from, to int, ok bool)

// A LaneConn is a client's connection with a lane. It is told of its states, and of every request
// before that is handled.
type LaneConn interface {
	net.Conn
	State(s http.ConnState)
	Called(r *http.Request)
}

// A Place is where an answer is left.
type Place interface {
	// Remember has requests like r answered by a, from the next one on.
	Remember(s *Stack, r *http.Request, a *Replayable)
}

// A Replayer answers a request that has been answered before, as its handler would.
type Replayer interface {
	// Replay fills in the record and the answer where memory has a fresh one that
	// Repeats. It sends no request and waits for nothing, and where it does not
	// answer nothing is counted.
	Replay(rec *Record, a *Answer) bool
}

// Repeats tells whether an entry is given without the handler of a request: of failures the
// line of the log is another one.
func Repeats(e *cache.Entry) bool { return e.Status < http.StatusInternalServerError }

// A Replayable is all of a request that its answer depends on, but for what is judged for each
// request, and for what may have changed: memory, the tip, limits and the time.
type Replayable struct {
	Replayer
	Route string
	Keyed bool // it needs a key
}

// NoLane says why no request is answered in the fast lane, "" if some are.
func (s *Stack) NoLane() string {
	switch {
	case s.o.Lane == nil:
		return "it is switched off"
	case s.o.Tracing != nil:
		return "traces are collected"
	case s.Admission.SharesAddresses():
		return "the limit of addresses is kept in Redis"
	}
	return ""
}

// Forget empties the fast lane, which remembers what was answered by what has
// been replaced.
func (s *Stack) Forget() {
	if s.o.Lane != nil {
		s.o.Lane.Forget()
	}
}

// placeOf is where the answer to a request may be left, nil for nowhere. A
// collector of traces wants to decide for each request whether it is collected.
func (s *Stack) placeOf(r *http.Request) Place {
	c := ConnOf(r)
	if s.o.Tracing != nil || c == nil || c.fast == nil {
		return nil
	}
	return c.fast.PlaceOf(r, c.lane)
}

// Arrive has the lane of a client's connection take up a call of gRPC, nil where it has none.
func (s *Stack) Arrive(client *Conn, method string, metadata map[string][]string, keyed bool, start time.Time) Call {
	if lane, ok := client.fast.(CallLane); ok && s.o.Lane != nil && s.o.Tracing == nil {
		return lane.Arrive(s, client, method, metadata, keyed, start)
	}
	return nil
}

// remember leaves behind what is needed to answer the request again.
func (s *Stack) remember(r *http.Request, rec *Record) {
	if rec.replayer != nil && rec.Err == nil && rec.Outcome == cache.Hit.String() && rec.Store == "memory" {
		rec.place.Remember(s, r, &Replayable{rec.replayer, rec.Route, rec.key.Name != ""})
	}
}

// A Rendering is an answer as it is sent. It ends with AppendTo or WriteTo.
type Rendering struct {
	Status  int
	Body    []byte // also of an answer to HEAD
	headers *headers
}

// Render makes the answer to a client that sent these values of headers.
func (s *Stack) Render(a *Answer, codings, tags []string, head bool, standings *limits.Standings) Rendering {
	h, from := collect(), asker{readAccepted(codings), tags, head}
	status, body := s.render(h, a, &from)
	a.forget()
	for i := range standings {
		if standing := &standings[i]; standing.Limited() {
			h.finish(standing.AppendText(h.begin(limits.StandingHeader)))
			h.finish(standing.AppendPolicy(h.begin(limits.PolicyHeader)))
		}
	}
	return Rendering{status, body, h}
}

// AppendTo appends the headers as they are sent by HTTP/1. ok is false if one of them cannot be sent as
// it is.
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

// WriteTo adds the headers to those of an answer of net/http's, with the id of its request.
func (r *Rendering) WriteTo(h http.Header, id string) {
	r.headers.finish(append(r.headers.begin(RequestIDHeader), id...))
	r.headers.writeTo(h)
}
