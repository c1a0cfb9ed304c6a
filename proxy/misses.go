package proxy

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/web"
)

// mountMisses answers what no route does: preflights, whose method no route
// has, and what is not served.
func (s *Server) mountMisses() {
	if s.cosmos != nil {
		s.mountCosmos()
		return
	}
	s.engine.NoRoute(s.missed(s.noPath))
	s.engine.NoMethod(s.missed(noMethod))
	s.visits.NoRoute(visited(miss(s.noPath)))
	s.visits.NoMethod(visited(miss(noMethod)))
}

// mountCosmos gives what no other route has to the chain of the SDK.
func (s *Server) mountCosmos() {
	serve := func(c *gin.Context) {
		if s.list != nil && strings.HasPrefix(c.Request.URL.Path, collections.Prefix) {
			s.missed(s.noPath)(c)
			return
		}
		rt := s.cosmos.Route(c.Request)
		if rt.Feed != nil && wantsStream(c.Request) {
			s.orStream(rt)(c)
			return
		}
		rt.Handler(c)
	}
	visit := func(c *gin.Context) {
		c.Status(http.StatusOK) // not Gin's, for a path without a route of its own
		visited(s.cosmos.Route(c.Request))(c)
		c.Writer.WriteHeaderNow()
	}
	s.engine.NoRoute(serve)
	s.engine.NoMethod(serve)
	s.visits.NoRoute(visit)
	s.visits.NoMethod(visit)
}

func (s *Server) missed(refuse func(*gin.Context) error) gin.HandlerFunc {
	serve := func(c *gin.Context, _ *web.Record) error { return refuse(c) }
	return s.stack.Handle(web.NoRoute, s.writeMiss, s.stack.OrPreflight(serve))
}

// miss is the route of requests that are refused.
func miss(refuse func(*gin.Context) error) web.Route {
	return web.Route{Plan: func(c *gin.Context) (web.Plan, error) { return web.Plan{}, refuse(c) }}
}

func (s *Server) noPath(c *gin.Context) error {
	if s.o.Undeclared && !strings.HasPrefix(c.Request.URL.Path, collections.Prefix) {
		return errUndeclared
	}
	if s.o.Chain.Shape == chain.Node && !strings.HasPrefix(c.Request.URL.Path, collections.Prefix) {
		web.Send(c.Writer, c.Request, http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
		return nil
	}
	return s.noSuchPath(c)
}

// noSuchPath names the path that may have been meant.
func (s *Server) noSuchPath(c *gin.Context) error {
	path := c.Request.URL.Path
	return &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(path) + web.PathDidYouMean(path, s.patterns)}
}

func noMethod(c *gin.Context) error {
	return &web.Failure{Status: http.StatusMethodNotAllowed, Public: "the method " + web.Short(c.Request.Method) + " is not served here"}
}

// writeMiss is the renderer for what no route answers: in the form of the
// interface that its path belongs to.
func (s *Server) writeMiss(c *gin.Context, f *web.Failure) {
	if s.list != nil && strings.HasPrefix(c.Request.URL.Path, collections.Prefix) {
		s.list.WriteProblem(c, f)
	} else {
		chain.WriteFailure(c, f)
	}
	c.Writer.WriteHeaderNow() // where no body follows, to a HEAD, Gin would add a text of its own
}
