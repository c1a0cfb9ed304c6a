package web

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
)

// A Handler answers a request or returns why not.
type Handler func(c *gin.Context, rec *Record) error

// Handle makes a handler of Gin's: with a request id, an end for oversized
// requests and for clients that ask too often, errors and panics rendered, and
// one record of it all.
func (s *Stack) Handle(route string, render Renderer, h Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		rec := &Record{route: route, Start: time.Now(), id: [1]string{requestID(c.Request.Header)}, client: connOf(c.Request), conn: s.laneOf(c.Request)}
		c.Writer.Header()[RequestIDHeader] = rec.id[:]
		s.trace(c, rec)
		defer s.conclude(c, rec, render)
		err := s.admitAddress(c)
		if err == nil {
			err = s.Oversized(c.Request)
		}
		if err == nil {
			err = h(c, rec)
		}
		if err != nil {
			rec.err, rec.outcome = err, ""
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
		rec.err, rec.outcome = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), ""
	}
	if rec.outcome == "" {
		rec.outcome = "answered"
	}
	if rec.err != nil && !c.Writer.Written() {
		f := FailureOf(rec.err)
		rec.outcome = "failed"
		switch {
		case f.Status == statusClientGone:
			rec.outcome = "abandoned"
		case f.Status < http.StatusInternalServerError:
			rec.outcome = "refused"
		}
		render(c, f)
	}
	s.remember(c, rec)
	ended := ended{
		asked: askedBy(c.Request), client: s.clientOf(c.Request),
		status: c.Writer.Status(), size: max(0, c.Writer.Size()), took: time.Since(rec.Start),
	}
	s.metrics.observe(rec, &ended)
	s.log.write(rec, &ended)
	rec.endSpan(c)
}
