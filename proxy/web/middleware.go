package web

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// NewEngine returns a Gin engine whose requests pass the middleware that all interfaces share, in the
// order below. find returns the route of a request, and may replace c.Request. first, which may be nil,
// comes after CORS and serves requests that the rest is not meant for.
func (s *Stack) NewEngine(find func(c *gin.Context) Route, first gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(s.allowOrigins)
	if first != nil {
		engine.Use(first)
	}
	engine.Use(
		s.record(find),     // request id, access log, metrics, traces
		s.renderFailures,   // errors and panics, in the form of the route
		s.limitAddress,     // 429 for addresses that send too many requests
		s.limitSize,        // 414 and 431
		s.answerPreflights, // CORS
		s.requireKey,       // 401 and 429 for API keys
		s.applyRules,       // 403 and 429 by the access rules
	)
	return engine
}

// Handle serves the requests of a route of an engine by NewEngine.
func Handle(c *gin.Context) {
	rec := recordOf(c)
	if err := rec.route.Serve(c, rec); err != nil {
		abort(c, rec, err)
	}
}

// recordWriter is Gin's writer of a response, with the record of the request. Gin's own values of a context
// would cost a map for each request.
type recordWriter struct {
	gin.ResponseWriter
	rec *Record
}

// Unwrap is for [http.ResponseController].
func (w *recordWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recordOf returns the record that the middleware has made for a request.
func recordOf(c *gin.Context) *Record {
	return c.Writer.(*recordWriter).rec //nolint:forcetypeassert // the middleware has set it
}

// abort ends the chain of handlers. renderFailures sends the error.
func abort(c *gin.Context, rec *Record, err error) {
	rec.Err, rec.Outcome = err, ""
	c.Abort()
}

// allowOrigins sets the CORS headers of every response, errors included.
func (s *Stack) allowOrigins(c *gin.Context) { s.setOrigin(c.Writer.Header(), c.Request) }

// record makes the record of a request and logs and counts it at the end.
func (s *Stack) record(find func(c *gin.Context) Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		rt := find(c)
		rec := &Record{Record: record.Record{Route: rt.Name, Start: start, ID: [1]string{requestID(c.Request.Header)}}, route: rt}
		if s.o.Lane != nil {
			rec.place = s.placeOf(c.Request)
		}
		rec.Arrive(conn.Of(c.Request))
		rec.writer = recordWriter{c.Writer, rec}
		c.Writer = &rec.writer
		c.Status(http.StatusOK) // Gin begins with 404 for paths that it does not route
		c.Writer.Header()[respond.RequestIDHeader] = rec.ID[:]
		c.Request = s.Recorder.Begin(c.Request, &rec.Record)
		defer func() { s.end(c.Request, rec, c.Writer.Status(), max(0, c.Writer.Size())) }()
		c.Next()
	}
}

// renderFailures sends the error of a handler that has sent nothing, and recovers panics.
func (s *Stack) renderFailures(c *gin.Context) {
	rec := recordOf(c)
	defer func() {
		if p := recover(); p != nil {
			abort(c, rec, panicError(p))
		}
		if rec.Err != nil {
			s.sendFailure(c, rec)
		}
		c.Writer.WriteHeaderNow()
	}()
	c.Next()
}

// sendFailure sends the error to the client, unless a response has been sent already.
func (s *Stack) sendFailure(c *gin.Context, rec *Record) {
	f := rec.failure()
	if c.Writer.Written() {
		return
	}
	rec.Outcome = outcomeOf(f)
	status, typ, body := rec.route.Render(c.Request, c.Writer.Header(), f)
	respond.Send(c.Writer, c.Request, status, typ, body)
}

func (s *Stack) limitAddress(c *gin.Context) {
	rec := recordOf(c)
	if err := s.admit(c.Request, rec, c.Writer.Header()); err != nil {
		abort(c, rec, err)
	}
}

func (s *Stack) limitSize(c *gin.Context) {
	if err := s.Oversized(c.Request); err != nil {
		abort(c, recordOf(c), err)
	}
}

// answerPreflights answers a browser that asks whether a page may make a request. The browser sends no
// API key with it, so every client gets the response, which is the same on every path.
func (s *Stack) answerPreflights(c *gin.Context) {
	if s.origins == nil || !isPreflight(c.Request) {
		return
	}
	s.allowPreflight(c.Writer.Header())
	c.AbortWithStatus(http.StatusNoContent)
}

func (s *Stack) requireKey(c *gin.Context) {
	if rec := recordOf(c); rec.route.Keyed {
		if err := s.AdmitKey(c.Request, c.Writer.Header(), rec); err != nil {
			abort(c, rec, err)
		}
	}
}

func (s *Stack) applyRules(c *gin.Context) {
	if rec := recordOf(c); rec.route.Access != "" {
		if err := s.AdmitOperation(c.Request, rec, c.Writer.Header(), rec.route.Access); err != nil {
			abort(c, rec, err)
		}
	}
}
