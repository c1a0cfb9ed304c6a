package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// A chainRoute serves one row of the table.
type chainRoute struct {
	*Server
	*reader
	policy cache.Policy
}

// mountChain mounts the table.
func (s *Server) mountChain(r *gin.Engine) {
	for _, rt := range routes {
		cr := &chainRoute{s, newReader(rt, s.o.Shape, s.o.MaxPageLimit), s.policyOf(rt)}
		h := s.observed(rt.name, s.writeFailure, cr.serve)
		r.GET(rt.pattern, h)
		r.HEAD(rt.pattern, h)
	}
}

// policyOf is the route's own policy, or that of its class.
func (s *Server) policyOf(rt route) cache.Policy {
	if own, ok := s.o.Routes[rt.name]; ok {
		return own
	}
	if rt.class == params {
		return s.o.Classes.Params
	}
	return s.o.Classes.Live
}

// serve answers one request.
func (cr *chainRoute) serve(c *gin.Context, rec *record) error {
	if hasBody(c.Request) {
		return badInput("a %s request takes no body", c.Request.Method)
	}
	h, err := readHeights(c.Request.Header, cr.asSent)
	if err != nil {
		return err
	}
	q, err := cr.read(c.Params, c.Request.URL.RawQuery, h.pinned)
	if err != nil {
		return err
	}
	ctx := withLazyDeadline(c.Request.Context(), rec.start.Add(cr.o.RequestTimeout))
	defer ctx.release()
	tip, err := cr.settle(ctx, h)
	rec.tip, rec.pinned = tip.Height, h.pinned > 0
	if err != nil {
		return err
	}
	query := cr.query(q, h, tip)
	res, err := cr.o.Cache.Get(ctx, query, cr.origin(q))
	if err != nil {
		return err
	}
	rec.result(res)
	if res.Entry.Height > tip.Height && res.Entry.Status == http.StatusOK {
		cr.o.Nodes.Raise(res.Entry.Height) // another replica has read there
	}
	cr.respond(c.Writer, c.Request, answer{
		Result: res, policy: query.Policy, tip: tip, seconds: !tip.Known && h.pinned == 0,
		vary: heightHeader + ", " + minHeightHeader,
	})
	return nil
}

// query is what the cache is asked: one slot for the newest state, replaced
// block by block, and one for each block that is asked for by its height.
func (cr *chainRoute) query(q question, h heights, tip node.Tip) cache.Query {
	query := cache.Query{Key: q.key, Policy: cr.policy, MinHeight: h.min}
	if tip.Known {
		query.Tip = tip.Height
	}
	if h.pinned > 0 {
		query.Policy, query.MinHeight = cr.o.Classes.Pinned, 0
	}
	return query
}

// origin asks the node, which is what a miss comes to.
func (cr *chainRoute) origin(q question) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		r := q.request()
		r.Background = cache.InBackground(ctx)
		a, err := cr.o.Nodes.Fetch(ctx, r)
		if err != nil {
			return nil, err
		}
		if lagging := a.Reason == node.FutureHeight || a.Reason == node.Pruned; lagging && q.height == 0 {
			// The height was our choice, so the refusal says nothing to the client.
			return nil, &upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node is behind the newest block", Err: errors.New(a.Text)}
		}
		return cr.entry(q, a, prev)
	}
}

// hasBody says whether a request carries a body. The node lets one override
// the query of some paths, and here nothing reads it.
func hasBody(r *http.Request) bool {
	if r.ContentLength == 0 || r.Body == nil {
		return false
	}
	if r.ContentLength > 0 {
		return true
	}
	var one [1]byte // chunked: perhaps empty
	n, _ := io.ReadFull(r.Body, one[:])
	return n > 0
}
