package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
)

// noRoute is the route's name where there is none: paths are not labels.
const noRoute = "none"

// A record is what one request is remembered by, in the log and in metrics.
type record struct {
	route   string
	start   time.Time
	id      [1]string // also the header's values
	tenant  string    // the name on the request's key
	outcome string    // hit, stale, miss, collapsed, stale_error; without the cache answered, refused, abandoned or failed
	store   string
	height  int64 // of the block it was answered at
	tip     int64 // newest block known then; 0 for none
	pinned  bool  // the client chose the height
	age     time.Duration
	err     error
	span    trace.Span // nil where traces are off

	cached   bool // the cache gave the answer, and what is known of its age
	degraded bool // a page that lacks metadata it should have
}

// result notes what came of asking the cache.
func (rec *record) result(res cache.Result) {
	rec.cached = true
	rec.outcome, rec.store, rec.err = outcome(res), res.Store, res.Err
	rec.height, rec.age = res.Entry.Height, max(0, rec.start.Sub(res.Entry.ReadAt))
}

// outcome tells the callers of a flight from the one who asked the origin.
func outcome(res cache.Result) string {
	if res.Outcome == cache.Miss && res.Collapsed {
		return "collapsed"
	}
	return res.Outcome.String()
}

// A handler answers a request or returns why not.
type handler func(c *gin.Context, rec *record) error

// observed makes a handler of Gin's: with a request id, an end for oversized
// requests and for clients that ask too often, errors and panics rendered, and
// one record of it all.
func (s *Server) observed(route string, render renderer, h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		rec := &record{route: route, start: time.Now(), id: [1]string{requestID(c.Request.Header)}}
		c.Writer.Header()[requestIDHeader] = rec.id[:]
		s.trace(c, rec)
		defer s.conclude(c, rec, render)
		err := s.oversized(c.Request)
		if err == nil {
			err = s.admitAddress(c)
		}
		if err == nil {
			err = h(c, rec)
		}
		if err != nil {
			rec.err, rec.outcome = err, ""
		}
	}
}

// oversized refuses what is larger than any client of ours has a reason to send.
func (s *Server) oversized(r *http.Request) error {
	if len(r.RequestURI) > s.o.MaxURL {
		return &failure{Status: http.StatusRequestURITooLong, Public: fmt.Sprintf("the request target is longer than %d bytes", s.o.MaxURL)}
	}
	size := 0
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size > s.o.MaxHeader {
		return &failure{Status: http.StatusRequestHeaderFieldsTooLarge, Public: fmt.Sprintf("the request headers are larger than %d bytes", s.o.MaxHeader)}
	}
	return nil
}

// conclude is deferred around every request.
func (s *Server) conclude(c *gin.Context, rec *record, render renderer) {
	if p := recover(); p != nil {
		rec.err, rec.outcome = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), ""
	}
	if rec.outcome == "" {
		rec.outcome = "answered"
	}
	if rec.err != nil && !c.Writer.Written() {
		f := failureOf(rec.err)
		rec.outcome = "failed"
		switch {
		case f.Status == statusClientGone:
			rec.outcome = "abandoned"
		case f.Status < http.StatusInternalServerError:
			rec.outcome = "refused"
		}
		render(c, f)
	}
	took := time.Since(rec.start)
	s.metrics.observe(c, rec, took)
	if s.o.AccessLog != nil {
		s.logAccess(c, rec, took)
	}
	rec.endSpan(c)
}

// requestID takes the client's id if it is harmless, else makes one. An id has
// to be one of a kind, and no secret.
func requestID(h http.Header) string {
	if sent := h[requestIDHeader]; len(sent) > 0 && safeID(sent[0]) {
		return sent[0]
	}
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
}

func safeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}
