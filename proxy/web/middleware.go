package web

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// NewEngine returns a Gin engine with the middleware that all interfaces share, in the order below. Its routes must have
// the handler [Handle]. find returns the route of a request, and may replace c.Request. first, which may be nil, runs
// after CORS and serves requests that have no route.
func (s *Stack) NewEngine(find func(c *gin.Context) Route, first gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false // Gin redirects before any middleware
	engine.Use(s.allowOrigins)
	if first != nil {
		engine.Use(first)
	}
	engine.Use(
		s.record(find),     // request id, access log, metrics, traces
		s.renderFailures,   // errors and panics, in the form of the route
		s.limit,            // 429 for addresses that send too many requests, 414 and 431
		s.answerPreflights, // CORS
		s.authorize,        // 401 and 429 for API keys, 403 and 429 by the access rules
	)
	return engine
}

// Handle serves a request of an engine by [Stack.NewEngine] with its route.
func Handle(c *gin.Context) {
	q := requestOf(c)
	if err := q.route.Serve(c, &q.Record); err != nil {
		abort(c, err)
	}
}

// A request is Gin's writer of a response, with the record of the request. Gin's own values would cost a map.
type request struct {
	gin.ResponseWriter
	record.Record
	route Route
}

// Unwrap supports [http.ResponseController].
func (q *request) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// requestOf returns the request that record has created.
func requestOf(c *gin.Context) *request {
	return c.Writer.(*request) //nolint:forcetypeassert // record has set it
}

// abort ends the chain of handlers. renderFailures sends the error.
func abort(c *gin.Context, err error) {
	q := requestOf(c)
	q.Err, q.Outcome = err, ""
	c.Abort()
}

// allowOrigins sets the CORS headers of every response, errors included.
func (s *Stack) allowOrigins(c *gin.Context) { s.setOrigin(c.Writer.Header(), c.Request) }

// record creates the record of a request, and counts, logs and traces the request at its end.
func (s *Stack) record(find func(c *gin.Context) Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		rt := find(c)
		q := &request{route: rt, ResponseWriter: c.Writer}
		rec := &q.Record
		rec.Route, rec.Start, rec.ID[0] = rt.Name, start, record.RequestID(c.Request.Header)
		rec.Sampling = record.SamplingOf(c.Request.Context())
		if s.o.Lane != nil {
			rec.LaneSlot = s.laneSlot(c.Request)
		}
		s.Arrive(c.Request, rec)
		c.Writer = q
		c.Status(http.StatusOK) // Gin begins with 404 for paths that it does not route
		c.Writer.Header()[respond.RequestIDHeader] = rec.ID[:]
		c.Request = s.Recorder.Begin(c.Request, rec)
		defer func() { s.end(c.Request, rec, c.Writer.Status(), max(0, c.Writer.Size())) }()
		c.Next()
	}
}

// renderFailures sends the error or the panic of a later handler.
func (s *Stack) renderFailures(c *gin.Context) {
	if _, err := recovered(func() (int, error) { c.Next(); return 0, nil }); err != nil {
		abort(c, err)
	}
	if q := requestOf(c); q.Err != nil {
		q.sendFailure(c)
	}
	c.Writer.WriteHeaderNow()
}

// sendFailure sends the error to the client, unless a response has been sent already.
func (q *request) sendFailure(c *gin.Context) {
	outcome := q.Outcome
	f := q.Fail()
	if c.Writer.Written() {
		q.Outcome = outcome
		return
	}
	status, typ, body := q.route.Render(c.Request, c.Writer.Header(), f)
	respond.Send(c.Writer, c.Request, status, typ, body)
}

func (s *Stack) limit(c *gin.Context) {
	err := s.admit(c.Request, &requestOf(c).Record, c.Writer.Header())
	if err == nil {
		err = s.Oversized(c.Request)
	}
	if err != nil {
		abort(c, err)
	}
}

// answerPreflights answers a browser that asks whether a page may make a request. The response is the same on every
// path, and needs no API key, because browsers send none with it.
func (s *Stack) answerPreflights(c *gin.Context) {
	r, h := c.Request, c.Writer.Header()
	if s.origins == nil || r.Method != http.MethodOptions || r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		return
	}
	if h[originHeader] != nil { // the origin is allowed
		h.Set("Access-Control-Allow-Methods", allowedMethods)
		h.Set("Access-Control-Allow-Headers", allowedHeaders)
		h.Set("Access-Control-Max-Age", preflightAge)
	}
	c.AbortWithStatus(http.StatusNoContent)
}

func (s *Stack) authorize(c *gin.Context) {
	q, h := requestOf(c), c.Writer.Header()
	var err error
	if q.route.Keyed {
		err = s.AdmitKey(c.Request, h, &q.Record)
	}
	if err == nil && q.route.Access != "" {
		err = s.AdmitOperation(c.Request, &q.Record, h, q.route.Access)
	}
	if err != nil {
		abort(c, err)
	}
}
