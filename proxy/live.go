package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// Drain ends the streams, whose clients are told to come again, and begins no
// more. It is for the beginning of a shutdown.
func (s *Server) Drain() { s.streams.Drain() }

// renderer writes failures in the form of the chain's interface.
func (s *Server) renderer() web.Renderer {
	if s.cosmos != nil {
		return cosmos.WriteFailure
	}
	return chain.WriteFailure
}

// mountLive mounts the stream of several answers.
func (s *Server) mountLive() {
	h := s.streams.Handle(s.renderer(), s.chain.Admit, s.liveSources)
	s.engine.GET(stream.LivePath, h)
	s.engine.HEAD(stream.LivePath, h)
}

// liveSources are the feeds of the paths that a request for /live names.
func (s *Server) liveSources(c *gin.Context) ([]stream.Source, error) {
	paths := c.QueryArray(stream.PathParameter)
	if len(paths) == 0 || len(paths) > stream.MaxLivePaths {
		return nil, web.BadInput("path is given %d times; expected 1 to %d, each a path of this server with its query", len(paths), stream.MaxLivePaths)
	}
	sources := make([]stream.Source, len(paths))
	for i, path := range paths {
		feed, err := s.feedOf(c.Request, path)
		if err != nil {
			return nil, err
		}
		sources[i] = stream.Source{Path: path, Feed: feed}
	}
	return sources, nil
}

// feedOf finds the feed of a path and query, with the headers of the request that
// names it.
func (s *Server) feedOf(asked *http.Request, target string) (feed web.Feed, err error) {
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return feed, web.BadInput("path is %q; expected a path of this server with its query", web.Short(target))
	}
	r := asked.WithContext(asked.Context())
	r.Method, r.URL, r.RequestURI = http.MethodGet, u, target
	s.visit(&refusalWriter{header: http.Header{}}, r, func(c *gin.Context, rt web.Route) {
		switch {
		case rt.Feed != nil:
			feed, err = rt.Feed(c)
		case s.cosmos != nil:
			err = web.BadInput("%s cannot be streamed", web.Short(c.Request.URL.Path))
		default:
			err = s.noSuchPath(c)
		}
	})
	return feed, err
}
