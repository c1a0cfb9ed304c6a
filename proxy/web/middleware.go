package web

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// NewEngine returns a Gin engine. Its routes must have the handler [Handle]. find returns the route of a request, and may
// replace c.Request. first, which may be nil, runs after CORS and serves requests that have no route.
func (s *Stack) NewEngine(find func(c *gin.Context) Route, first gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(func(c *gin.Context) { s.setOrigin(c.Writer.Header(), c.Request) }) // on every response, errors included
	if first != nil {
		engine.Use(first)
	}
	engine.Use(s.record(find))
	return engine
}

// A request is Gin's writer of a response, with the record of the request. Gin's own values of a context
// would cost a map for each request.
type request struct {
	gin.ResponseWriter
	record.Record
	stack *Stack
	route Route
}

// Unwrap supports [http.ResponseController].
func (q *request) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// record creates the record of a request, and counts, logs and traces the request at its end.
func (s *Stack) record(find func(c *gin.Context) Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		rt := find(c)
		q := &request{stack: s, route: rt, ResponseWriter: c.Writer}
		rec := &q.Record
		rec.Route, rec.Start, rec.ID[0] = rt.Name, start, record.RequestID(c.Request.Header)
		if s.o.Lane != nil {
			rec.LaneSlot = s.laneSlot(c.Request)
		}
		s.arrive(c.Request, rec)
		c.Writer = q
		c.Status(http.StatusOK) // Gin begins with 404 for paths that it does not route
		c.Writer.Header()[respond.RequestIDHeader] = rec.ID[:]
		c.Request = s.Recorder.Begin(c.Request, rec)
		defer func() { s.end(c.Request, rec, c.Writer.Status(), max(0, c.Writer.Size())) }()
		c.Next()
	}
}

// Handle serves a request of an engine by [Stack.NewEngine]. It sends an error or a panic in the form of the route.
func Handle(c *gin.Context) {
	q := c.Writer.(*request) //nolint:forcetypeassert // record has set it
	if _, err := recovered(func() (int, error) { return 0, q.serve(c) }); err != nil {
		q.Err, q.Outcome = err, ""
	}
	if q.Err != nil {
		q.sendFailure(c)
	}
	c.Writer.WriteHeaderNow()
}

// serve passes a request to its route if the client may make it.
func (q *request) serve(c *gin.Context) error {
	s, rec, answer := q.stack, &q.Record, c.Writer.Header()
	if err := s.admit(c.Request, rec, answer); err != nil {
		return err
	}
	if err := s.Oversized(c.Request); err != nil {
		return err
	}
	if s.origins != nil && isPreflight(c.Request) { // browsers send no API key with it
		s.allowPreflight(answer)
		c.Status(http.StatusNoContent)
		return nil
	}
	if q.route.Keyed {
		if err := s.AdmitKey(c.Request, answer, rec); err != nil {
			return err
		}
	}
	if q.route.Access != "" {
		if err := s.AdmitOperation(c.Request, rec, answer, q.route.Access); err != nil {
			return err
		}
	}
	return q.route.Serve(c, rec)
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
