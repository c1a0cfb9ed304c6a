package proxy

import (
	"net/url"
	"strings"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// stream returns the route that streams the responses of a route.
func (v *router) stream(rt web.Route) web.Route {
	return v.streams.Route(rt, func(r *web.Request) ([]stream.Source, error) {
		feed, err := rt.Feed(r)
		return []stream.Source{{Feed: feed}}, err
	})
}

// liveSources returns the feeds of the paths in a request for /live.
func (v *router) liveSources(r *web.Request) ([]stream.Source, error) {
	paths, err := pathsOf(r, stream.MaxLivePaths)
	if err != nil {
		return nil, err
	}
	r.WalkWait = new(time.Time)
	sources := make([]stream.Source, len(paths))
	for i, path := range paths {
		if sources[i], err = v.sourceOf(r, path); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// pathsOf returns the paths that a request names, between one and most.
func pathsOf(r *web.Request, most int) ([]string, error) {
	paths := r.URL.Query()[web.PathParameter]
	if len(paths) == 0 || len(paths) > most {
		return nil, failure.BadInput("path is given %d times; expected 1 to %d, each a path of this server with its query", len(paths), most)
	}
	return paths, nil
}

// sourceOf returns the feed of a path and query, with the headers of the request that names it.
func (v *router) sourceOf(outer *web.Request, target string) (s stream.Source, err error) {
	r, err := v.nested(outer, target)
	if err != nil {
		return s, err
	}
	switch rt := v.route(r); {
	case rt.Feed != nil:
		s.Path, s.Operation = target, v.operationOf(r.URL.Path)
		s.Feed, err = rt.Feed(r)
		return s, err
	case v.exact, rt.Name == fallback.Name:
		return s, failure.BadInput("%s cannot be streamed", web.Short(r.URL.Path))
	default:
		return s, v.notNamed(r)
	}
}

// nested returns the request for target, one of the paths of a request for /batch or /live. It returns an error if an access rule
// denies the path.
func (v *router) nested(outer *web.Request, target string) (*web.Request, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return nil, failure.BadInput("path is %q; expected a path of this server with its query", web.Short(target))
	}
	if name := web.StreamParameterIn(u.RawQuery); name != "" {
		return nil, failure.BadInput("path %q has the parameter %s, which belongs to the whole request", web.Short(target), name)
	}
	r := outer.Nested(u)
	v.engine.Tidy(r)
	if v.route(r).Waits && stream.TakeWait(r) {
		return nil, failure.BadInput("path %q has the parameter %s; request it alone", web.Short(target), stream.WaitParameter)
	}
	return r, v.stack.Admission.Denied(v.operationOf(r.URL.Path))
}
