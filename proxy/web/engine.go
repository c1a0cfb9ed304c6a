package web

import (
	"bufio"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/respond"
)

// An Engine routes requests with Gin: by the paths that Handle has added, and by a function for all other paths. It must not change
// after its first request.
type Engine struct {
	stack *Stack
	gin   *gin.Engine
	mount *Mount
}

// NewEngine returns an engine. find returns the route of a request for a path that Handle has not added, and may edit the request.
// Without a mount, which may be nil, URLs stay as they were sent.
func (s *Stack) NewEngine(mount *Mount, find func(*Request) Route) *Engine {
	gin.SetMode(gin.ReleaseMode)
	e := &Engine{stack: s, gin: gin.New(), mount: mount}
	e.gin.RedirectTrailingSlash = false // Gin redirects before any middleware, so without a record or a limit
	e.gin.NoRoute(e.handlers(find)...)
	return e
}

// Handle adds the paths of a pattern, as in [Route], for some methods or, with none, for all. find returns their route, and may edit
// the request. All variables have one name, because Gin refuses different ones at one place: handlers read the path themselves.
func (e *Engine) Handle(pattern string, find func(*Request) Route, methods ...string) {
	path := variable.ReplaceAllString(pattern, ":x")
	if len(methods) == 0 {
		e.gin.Any(path, e.handlers(find)...)
		return
	}
	e.gin.Match(methods, path, e.handlers(find)...)
}

var variable = regexp.MustCompile(`{[^}]*}`)

// handlers returns what a request passes, in order.
func (e *Engine) handlers(find func(*Request) Route) []gin.HandlerFunc {
	s := e.stack
	return []gin.HandlerFunc{
		s.begin,            // the writer of the response, and CORS headers, which errors have, too
		s.record(find),     // the route, request id, access log, metrics, traces
		s.renderFailures,   // errors and panics, in the form of the route
		s.limit,            // 429 for addresses that send too many requests, 414 and 431
		s.answerPreflights, // of CORS
		s.authorize,        // 401 and 429 for API keys, 403 and 429 by the access rules
		serve,              // the function of the route
	}
}

// Handler returns the handler of a listener whose requests all pass the engine.
func (e *Engine) Handler() http.Handler {
	return e.stack.Handler(nil, e)
}

// A ginWriter is the writer that Gin gets. It carries the Request to the middleware, because Gin's own values would cost a map.
type ginWriter struct {
	http.ResponseWriter
	request *Request
}

// Unwrap supports [http.ResponseController].
func (p *ginWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Flush implements [http.Flusher], which Gin requires.
func (p *ginWriter) Flush() { _ = http.NewResponseController(p.ResponseWriter).Flush() } // fails only if the client has disconnected

// Hijack implements [http.Hijacker], which Gin requires.
func (p *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(p.ResponseWriter).Hijack()
}

// requestOf returns the request that door.pass has passed to Gin.
func requestOf(c *gin.Context) *Request {
	w := c.Writer.(interface{ Unwrap() http.ResponseWriter }) //nolint:forcetypeassert // Gin's writer
	return w.Unwrap().(*ginWriter).request                    //nolint:forcetypeassert // door.pass has set it
}

// abort ends the chain of handlers. renderFailures sends the error.
func abort(c *gin.Context, r *Request, err error) {
	r.Record.Err, r.Record.Outcome = err, ""
	c.Abort()
}

// begin sets the response of a request and its CORS headers.
func (s *Stack) begin(c *gin.Context) {
	r := requestOf(c)
	r.Writer, r.sent, r.ResponseHeader = c.Writer, c.Writer, c.Writer.Header()
	s.setOrigin(r.ResponseHeader, r.Request)
}

// record finds the route of a request and begins its record with it. It counts, logs and traces the request at its end. A route
// with Whole does all of this itself.
func (s *Stack) record(find func(*Request) Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := requestOf(c)
		rec := &r.Record
		rec.Start = time.Now()
		if r.route = find(r); r.route.Whole != nil {
			r.route.Whole(r)
			c.Abort()
			return
		}
		rec.Route = r.route.Name
		if s.o.Lane != nil {
			rec.LaneSlot = s.laneSlot(r)
		}
		s.Arrive(r)
		c.Status(http.StatusOK) // Gin begins with 404 for paths that it does not route
		r.Request = s.Recorder.Begin(r.Request, rec)
		r.ResponseHeader[respond.RequestIDHeader] = rec.ID[:]
		defer func() { s.end(r, r.sent.Status(), max(0, r.sent.Size())) }()
		c.Next()
	}
}

// renderFailures sends the error or the panic of a later handler.
func (s *Stack) renderFailures(c *gin.Context) {
	r := requestOf(c)
	if _, err := recovered(func() (int, error) { c.Next(); return 0, nil }); err != nil {
		abort(c, r, err)
	}
	if r.Record.Err != nil {
		r.sendFailure()
	}
	r.sent.WriteHeaderNow()
}

// sendFailure sends the error to the client, unless a response has been sent already.
func (r *Request) sendFailure() {
	outcome := r.Record.Outcome
	f := r.Record.Fail()
	if r.sent.Written() {
		r.Record.Outcome = outcome
		return
	}
	r.Send(r.route.Render(r, r.ResponseHeader, f))
}

func (s *Stack) limit(c *gin.Context) {
	r := requestOf(c)
	err := s.admit(r)
	if err == nil {
		err = s.Oversized(r.Request)
	}
	if err != nil {
		abort(c, r, err)
	}
}

// answerPreflights answers a browser that asks whether a page may make a request. The response is the same on every
// path, and needs no API key, because browsers send none with it.
func (s *Stack) answerPreflights(c *gin.Context) {
	r := requestOf(c)
	if s.origins == nil || r.Method != http.MethodOptions || r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		return
	}
	if h := r.ResponseHeader; h[originHeader] != nil { // the origin is allowed
		h.Set("Access-Control-Allow-Methods", allowedMethods)
		h.Set("Access-Control-Allow-Headers", allowedHeaders)
		h.Set("Access-Control-Max-Age", preflightAge)
	}
	c.AbortWithStatus(http.StatusNoContent)
}

func (s *Stack) authorize(c *gin.Context) {
	r := requestOf(c)
	var err error
	if r.route.Keyed {
		err = s.AdmitKey(r)
	}
	if err == nil && r.route.Access != "" {
		err = s.AdmitOperation(r, r.route.Access)
	}
	if err != nil {
		abort(c, r, err)
	}
}

func serve(c *gin.Context) {
	r := requestOf(c)
	if err := r.route.Serve(r); err != nil {
		abort(c, r, err)
	}
}
