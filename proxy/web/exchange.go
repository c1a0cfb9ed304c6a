package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/proxy/record"
)

// Exchange counts, limits and logs what is asked and answered on a connection that is no
// longer HTTP's, such as a WebSocket, of which from is the request that opened it.
func (s *Stack) Exchange(from *http.Request, route string, serve func(*Record) (size int, err error)) error {
	rec := &Record{Record: record.Record{Route: route, Start: time.Now(), ID: [1]string{requestID(nil)}}}
	return s.exchange(from, rec, http.Header{}, serve)
}

// Begun is a call that has begun.
type Begun struct {
	Route string
	Start time.Time
	Place Place // where what is needed to answer it again is left, nil for nowhere
}

// Call does so with a request that is not of HTTP in its form, such as one of gRPC, but has the
// headers of one. How its client stands with its limits is added to those of the answer.
func (s *Stack) Call(r *http.Request, answer http.Header, b Begun, serve func(*http.Request, *Record) (size int, err error)) error {
	rec := &Record{Record: record.Record{Route: b.Route, Start: b.Start, ID: [1]string{requestID(r.Header)}}, place: b.Place}
	r = s.Recorder.Begin(r, &rec.Record)
	return s.exchange(r, rec, answer, func(rec *Record) (int, error) {
		if err := s.Oversized(r); err != nil {
			return 0, err
		}
		return serve(r, rec)
	})
}

func (s *Stack) exchange(from *http.Request, rec *Record, answer http.Header, serve func(*Record) (size int, err error)) error {
	rec.Arrive(ConnOf(from))
	size, err := 0, s.admit(from, rec, answer)
	if err == nil {
		err = recovered(func() (err error) {
			size, err = serve(rec)
			return err
		})
	}
	if err != nil {
		s.Fail(rec, err, record.HeadOf(from), s.address(from, rec.client), size)
		return err
	}
	s.end(from, rec, http.StatusOK, size)
	return nil
}

// Fail ends the record of what was asked and is not answered.
func (s *Stack) Fail(rec *Record, err error, head record.Head, client netip.Addr, size int) {
	rec.fail(err)
	f := rec.failure()
	rec.Outcome = outcomeOf(f)
	rec.Leave()
	s.Recorder.End(&rec.Record, &record.End{Head: head, Client: client, Status: f.Status, Size: size, Took: time.Since(rec.Start)}, nil)
}

// recovered makes a panic an error: there is no server around these calls that would.
func recovered(serve func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return serve()
}

// CacheStatus is the value of Cache-Status that says where an answer comes from.
func CacheStatus(a *Answer) string {
	var room [96]byte
	return string(AppendCacheStatus(room[:0], a))
}

// AppendCacheStatus appends it.
func AppendCacheStatus(b []byte, a *Answer) []byte { return a.appendStatus(b, a.lifetime()) }

// Tell sets the headers that say of an answer where it comes from, how old it is and at which
// block it holds.
func (rs *responder) Tell(to http.Header, a *Answer) {
	h := collect()
	a.freshness(h, false)
	if a.Entry.Height > 0 && !a.NoHeight {
		h.setInt(HeightHeader, a.Entry.Height)
		a.setSession(h)
	}
	h.writeTo(to)
}

// SendTold writes a body that was made of an answer, with its validator.
func (rs *responder) SendTold(w http.ResponseWriter, r *http.Request, a *Answer, status int, tag string, body []byte) {
	rs.Tell(w.Header(), a)
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
		writeWhole(w, r, body)
	}
}
