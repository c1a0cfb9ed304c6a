package web

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/record"
)

// A Handler answers a request or returns why not.
type Handler func(c *gin.Context, rec *Record) error

// Handle makes a handler of Gin's: with a request id, an end for oversized
// requests and for clients that ask too often, errors and panics rendered, and
// one record of it all.
func (s *Stack) Handle(route string, render Renderer, h Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		rec := &Record{Record: record.Record{Route: route, Start: time.Now(), ID: [1]string{requestID(c.Request.Header)}}, client: connOf(c.Request), conn: s.laneOf(c.Request)}
		c.Writer.Header()[RequestIDHeader] = rec.ID[:]
		c.Request = s.recorder.Begin(c.Request, &rec.Record)
		defer s.conclude(c, rec, render)
		err := s.admission.AdmitAddress(c.Request, c.Writer.Header())
		if err == nil {
			err = s.Oversized(c.Request)
		}
		if err == nil {
			err = h(c, rec)
		}
		if err != nil {
			rec.fail(err)
		}
	}
}

// Oversized refuses what is larger than any client of ours has a reason to send.
func (s *Stack) Oversized(r *http.Request) error {
	if len(r.RequestURI) > s.o.MaxURL {
		return &Failure{Status: http.StatusRequestURITooLong, Public: fmt.Sprintf("the request target is longer than %d bytes", s.o.MaxURL)}
	}
	size := 0
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size > s.o.MaxHeader {
		return &Failure{Status: http.StatusRequestHeaderFieldsTooLarge, Public: fmt.Sprintf("the request headers are larger than %d bytes", s.o.MaxHeader)}
	}
	return nil
}

// conclude is deferred around every request.
func (s *Stack) conclude(c *gin.Context, rec *Record, render Renderer) {
	if p := recover(); p != nil {
		rec.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
	if rec.Outcome == "" {
		rec.Outcome = "answered"
	}
	if rec.Err != nil {
		s.explain(c, rec, render)
	}
	s.remember(c, rec)
	s.recorder.End(&rec.Record, &record.End{
		Asked: record.AskedBy(c.Request), Client: s.admission.Address(c.Request),
		Status: c.Writer.Status(), Size: max(0, c.Writer.Size()), Took: time.Since(rec.Start),
	})
}

// explain notes what the client is told of an error, and tells it unless an answer
// has gone out already.
func (s *Stack) explain(c *gin.Context, rec *Record, render Renderer) {
	f := FailureOf(rec.Err)
	rec.Public, rec.Expected = f.Public, f.Expected
	if c.Writer.Written() {
		return
	}
	switch {
	case f.Status == statusClientGone:
		rec.Outcome = "abandoned"
	case f.Status < http.StatusInternalServerError:
		rec.Outcome = "refused"
	default:
		rec.Outcome = "failed"
	}
	render(c, f)
}
