package cosmos

import (
	"errors"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options configure a Handler. Posting is required.
type Options struct {
	Rows    []dialect.Row   // the operator's rows, which come before the table's
	Posting *blocks.Posting // limits posts
}

// A Handler answers the queries of a chain. It owns no goroutine.
type Handler struct {
	*dialect.Table

	posts    map[string]web.Route
	redirect web.Route // for paths that are not clean
	unserved web.Route // for methods and paths that are not served
	posting  *blocks.Posting

	usesGRPC atomic.Bool // whether the newest answer of a node came by gRPC
}

// New returns a Handler. It fails if a row is invalid.
func New(o Options, r *blocks.Reader) (*Handler, error) {
	h := &Handler{
		Table:   dialect.NewTable(dialect.Options{Prefix: keyPrefix, Manner: dialect.Gateway, Heights: heights, Render: RenderFailure}, r),
		posting: o.Posting, posts: map[string]web.Route{},
	}
	for _, row := range Rows(o.Rows) {
		if row.Pattern == "" {
			continue
		}
		if err := h.mount(row); err != nil {
			return nil, err
		}
	}
	for _, p := range posts {
		p.h, p.kind = h, &blocks.Kind{Name: p.name, Class: blocks.Never}
		if p.reads {
			p.kind.Class = blocks.Live
		}
		h.Reader.Add(p.kind)
		rt := h.passed(p.name, p.serve)
		rt.Keyed = h.Reader.Keyed()
		h.posts[p.path] = rt
	}
	h.redirect = h.passed("redirect", redirect)
	h.unserved = h.passed(web.NoRoute, func(*web.Request) error { return errNotImplemented })
	return h, nil
}

// keyPrefix begins the keys of the dialect in the cache.
const keyPrefix = "cosmos"

func (h *Handler) mount(row dialect.Row) (err error) {
	ep := &endpoint{h: h}
	if ep.Endpoint, err = h.Mount(row, fieldOf, &blocks.Kind{Headers: ep.responseHeaders}, ep); err != nil {
		return err
	}
	if row.Method == state.ABCIQuery {
		ep.Endpoint.Route.Serve = ep.admitKey(ep.Endpoint.Route.Serve)
	}
	return nil
}

func (h *Handler) passed(name string, serve web.Handler) web.Route {
	return web.Route{
		Name: name, Serve: serve, Render: RenderFailure,
		Plan: func(*web.Request) (web.Plan, error) { return web.Plan{}, nil },
	}
}

// Route returns the route of a request, which always exists. Like the node, it uses the decoded path.
func (h *Handler) Route(r *web.Request) (web.Route, bool) {
	path := dialect.DropColon(r.URL.Path)
	switch {
	case clean(r.URL.Path) != r.URL.Path:
		return h.redirect, true
	case clean(path) != path: // the colon hides a segment . or .. from the redirect, and the node has no such path
		return h.unserved, true
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return h.Table.Route(r) // the last row matches every path
	case r.Method == http.MethodPost:
		if route, ok := h.posts[path]; ok {
			return route, true
		}
	}
	return h.unserved, true
}

// Routes returns no routes: like the node, Route looks at more than the pattern of a path, such as dots and a colon at its end.
func (h *Handler) Routes() []web.Route { return nil }

// Endpoint returns the endpoint of a request's path, nil if the path is not clean.
func (h *Handler) Endpoint(r *web.Request) *dialect.Endpoint {
	if path := dialect.DropColon(r.URL.Path); clean(path) != path {
		return nil
	}
	return h.Table.Endpoint(r)
}

// clean resolves // and .. like the node, which redirects other paths to the clean one.
func clean(decoded string) string {
	tidy := path.Clean("/" + decoded)
	if strings.HasSuffix(decoded, "/") && tidy != "/" {
		tidy += "/"
	}
	return tidy
}

// redirect redirects to the clean path, like the node.
func redirect(r *web.Request) error {
	target := *r.URL
	target.Scheme, target.Host, target.Path, target.RawPath = "", "", r.Base+clean(target.Path), ""
	target.RawQuery = web.RestoreOptions(r)
	r.ResponseHeader.Set("Location", target.String())
	r.Writer.WriteHeader(http.StatusMovedPermanently)
	return nil
}

var evmAddress = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

// SelectAddress selects the keys that contain an address. Upper case selects the same keys.
func (h *Handler) SelectAddress(text string) (cache.Selection, error) {
	canonical, _ := address(text)
	if _, _, err := bech32.DecodeNoLimit(canonical); err != nil && !evmAddress.MatchString(canonical) {
		return cache.Selection{}, errors.New("expected an address in bech32, or 0x and 40 hex digits")
	}
	return cache.Selection{Contains: canonical}, nil
}
