package chain

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An endpoint serves one row of the table.
type endpoint struct {
	*Handler
	*requestParser
	row int // in the table
}

// serve answers one request.
func (ep *endpoint) serve(c *gin.Context, rec *web.Record) error {
	if err := ep.Admit(c, rec); err != nil {
		return err
	}
	q, hs, err := ep.parse(c)
	if err != nil {
		return err
	}
	if q.unknown && !ep.asSent {
		if names := ep.misspelt(c.Request.URL.RawQuery); names != "" {
			c.Header(web.UnknownHeader, names)
			rec.Once()
		}
	}
	ctx := web.WithLazyDeadline(c.Request.Context(), ep.stack.Deadline(rec.Start))
	defer ctx.Release()
	tip, err := ep.settle(ctx, c.Request, rec, &hs)
	if hs.pinned == 0 && err == nil {
		tip = ep.Follow(ctx, rec, tip)
	}
	rec.Tip, rec.Pinned = tip.Height, hs.pinned > 0
	if err != nil {
		return err
	}
	query, res, err := ep.lookup(ctx, c.Request, rec, q, hs, tip)
	if err != nil {
		return err
	}
	if h := res.Entry.Height; 0 < h && h < hs.min { // of a node that catches up
		return ep.Late(hs.min, nil)
	}
	a := ep.Answer(rec, res, &query, tip, time.Now())
	ep.stack.Respond(c.Writer, c.Request, &a)
	return nil
}

// lookup asks the cache: a later page of a walk at the block of the walk, where
// that can still be read.
func (ep *endpoint) lookup(ctx context.Context, r *http.Request, rec *web.Record, q cacheRequest, hs heights, tip node.Tip) (cache.Query, cache.Result, error) {
	if q.walk.height > 0 {
		if sq, shs, ok := ep.snapshot(ctx, q, hs, tip); ok {
			query := ep.query(sq, shs, tip)
			res, err := ep.cache.Get(ctx, query, ep.origin(sq, r, rec))
			if err != nil || !outOfReach(res) {
				rec.Pinned = true
				return query, res, err
			}
		}
	}
	query := ep.query(q, hs, tip)
	if hs.pinned == 0 && ep.stack.WantsNoCache(r.Header) {
		query = web.NoCache(query, rec.Start)
	} else if q.walk.height == 0 && rec.Repeatable() {
		rec.Repeat(&memory{ep, q, hs})
	}
	res, err := ep.cache.Get(ctx, query, ep.origin(q, r, rec))
	return query, res, err
}

// parse reads what a request asks for.
func (ep *endpoint) parse(c *gin.Context) (q cacheRequest, hs heights, err error) {
	if hasBody(c.Request) {
		return q, hs, web.BadInput("a %s request takes no body", c.Request.Method)
	}
	if hs, err = readHeights(c.Request.Header, ep.asSent); err != nil {
		return q, hs, err
	}
	q, err = ep.read(c.Params, c.Request.URL.RawQuery, hs.pinned)
	return q, hs, err
}

// heights are the blocks a request names: at most one to be read at, and one
// that must have been seen.
type heights struct {
	pinned, min int64 // 0 for none
	evm         int64 // the execution client's block that must have been seen; 0 for none
}

func readHeights(h http.Header, asSent bool) (heights, error) {
	var hs heights
	var err error
	if hs.min, err = web.ReadBlock(web.MinHeightHeader, h[web.MinHeightHeader]); err != nil {
		return hs, err
	}
	if hs.evm, err = web.ReadBlock(web.MinEVMHeader, h[web.MinEVMHeader]); err != nil {
		return hs, err
	}
	if asSent {
		hs.pinned, err = nodeHeight(h[web.HeightHeader])
		return hs, err
	}
	if hs.pinned, err = web.ReadBlock(web.HeightHeader, h[web.HeightHeader]); err != nil {
		return hs, err
	}
	if hs.pinned > 0 && hs.min > hs.pinned {
		return hs, web.BadInput("%s is above %s: no answer can be both", web.MinHeightHeader, web.HeightHeader)
	}
	return hs, nil
}

// nodeHeight reads a height as the node does.
func nodeHeight(values []string) (int64, error) {
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	switch {
	case err != nil:
		return 0, nil //nolint:nilerr // to the node, garbage is no height
	case n < 0:
		return 0, &web.Failure{Status: http.StatusInternalServerError, Expected: true, NullMsg: true, Public: "failed to create query context: cannot query with height < 0; please provide a valid height: invalid request"}
	}
	return n, nil
}

// settle waits for the block a request must see, and refuses one that does
// not exist yet. It returns the tip to answer by. The execution client's block
// becomes one of the chain's that must be seen.
func (ep *endpoint) settle(ctx context.Context, from *http.Request, rec *web.Record, h *heights) (node.Tip, error) {
	if h.evm > 0 {
		height, err := ep.executed(ctx, from, rec, h.evm)
		if err != nil {
			return ep.o.Nodes.Tip(), err
		}
		h.min = max(h.min, height)
	}
	tip, err := ep.Settle(ctx, from, rec, h.min)
	if err == nil && tip.Known && h.pinned > tip.Height && !ep.asSent {
		err = web.BadInput("block %d is in the future; the newest is %d", h.pinned, tip.Height)
	}
	return tip, err
}

func (ep *endpoint) query(q cacheRequest, hs heights, tip node.Tip) cache.Query {
	return ep.QueryFor(q.key, q.cost, ep.policies.Load().Of(ep.row, hs.pinned), hs.pinned, hs.min, tip)
}

// origin asks the node, which is what a miss comes to, on behalf of the client
// of a request; of many clients together where there is none.
func (ep *endpoint) origin(q cacheRequest, from *http.Request, rec *web.Record) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		r := q.request()
		r.Background, r.Ahead = cache.InBackground(ctx), cache.Ahead(ctx)
		if from != nil {
			r.Client = ep.stack.Client(from, rec)
		}
		a, err := ep.o.Nodes.Fetch(ctx, r)
		if err = Silence(a, err, q.height == 0, prev); err != nil {
			return nil, err
		}
		return ep.entry(q, a, prev)
	}
}

// plan says what a request would ask.
func (ep *endpoint) plan(c *gin.Context) (web.Plan, error) {
	q, hs, err := ep.parse(c)
	if err != nil {
		return web.Plan{}, err
	}
	tip, err := ep.settle(c.Request.Context(), c.Request, &web.Record{}, &hs)
	if err != nil {
		return web.Plan{}, err
	}
	q, hs, _ = ep.snapshot(c.Request.Context(), q, hs, tip)
	p := web.Plan{Route: ep.Name, Class: ep.class.String(), Asks: "the node for " + q.path, Origin: "the node", Query: ep.query(q, hs, tip)}
	if q.query != "" {
		p.Asks += "?" + q.query
	}
	if hs.pinned > 0 {
		p.Class, p.Asks = "pinned", fmt.Sprintf("%s at block %d", p.Asks, hs.pinned)
	}
	return p, nil
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
