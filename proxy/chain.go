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
	row int // in the table
}

// mountChain mounts the table.
func (s *Server) mountChain(r *gin.Engine) {
	for row, rt := range routes {
		cr := &chainRoute{s, newReader(rt, s.o.Shape, s.o.MaxPageLimit), row}
		h := s.observed(rt.name, s.writeFailure, cr.serve)
		r.GET(rt.pattern, h)
		r.HEAD(rt.pattern, h)
		s.explain.GET(rt.pattern, s.explained(s.writeFailure, cr.explainRow))
	}
}

// serve answers one request.
func (cr *chainRoute) serve(c *gin.Context, rec *record) error {
	if err := cr.admit(c, rec); err != nil {
		return err
	}
	q, h, err := cr.asked(c)
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
	if h.pinned == 0 && cr.wantsAnew(c.Request.Header) {
		query = anew(query, rec.start)
	}
	res, err := cr.o.Cache.Get(ctx, query, cr.origin(q))
	if err != nil {
		return err
	}
	rec.result(res)
	if res.Entry.Height > tip.Height && res.Entry.Status == http.StatusOK {
		cr.o.Nodes.Raise(res.Entry.Height) // another replica has read there
	}
	cr.respond(c.Writer, c.Request, answer{
		Result: res, key: query.Key, policy: query.Policy, tip: tip, seconds: !tip.Known && h.pinned == 0, private: cr.o.ChainAuth,
		vary: heightHeader + ", " + minHeightHeader,
	})
	return nil
}

// asked reads what a request asks for.
func (cr *chainRoute) asked(c *gin.Context) (q question, h heights, err error) {
	if hasBody(c.Request) {
		return q, h, badInput("a %s request takes no body", c.Request.Method)
	}
	if h, err = readHeights(c.Request.Header, cr.asSent); err != nil {
		return q, h, err
	}
	q, err = cr.read(c.Params, c.Request.URL.RawQuery, h.pinned)
	return q, h, err
}

// admit lets those pass who may ask.
func (cr *chainRoute) admit(c *gin.Context, rec *record) error {
	if !cr.o.ChainAuth {
		return nil
	}
	return cr.admitKey(c, rec)
}

// query is what the cache is asked: one slot for the newest state, replaced
// block by block, and one for each block that is asked for by its height.
func (cr *chainRoute) query(q question, h heights, tip node.Tip) cache.Query {
	inForce := cr.policies.Load()
	query := cache.Query{Key: q.key, Policy: inForce.rows[cr.row], MinHeight: h.min}
	if tip.Known {
		query.Tip = tip.Height
	}
	if h.pinned > 0 {
		query.Policy, query.MinHeight = inForce.Pinned, 0
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
