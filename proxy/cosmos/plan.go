package cosmos

import (
	"context"
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// plan says what a request would ask.
func (ep *endpoint) plan(c *gin.Context) (web.Plan, error) {
	q, err := ep.parse(c.Request)
	if err != nil {
		return web.Plan{}, err
	}
	tip, err := ep.Settle(c.Request.Context(), c.Request, &web.Record{}, q.min)
	if err != nil || ep.row.Class == Never {
		return web.Plan{}, err
	}
	p := web.Plan{Route: ep.row.Name, Class: string(ep.row.Class), Asks: "the node for " + q.path, Origin: "the node", Query: ep.query(q, tip)}
	if q.query != "" {
		p.Asks += "?" + q.query
	}
	if q.pinned > 0 {
		p.Class, p.Asks = "pinned", fmt.Sprintf("%s at block %d", p.Asks, q.pinned)
	}
	return p, nil
}

// feed is the request's answer as streams follow it.
func (ep *endpoint) feed(c *gin.Context) (web.Feed, error) {
	q, err := ep.parse(c.Request)
	if err != nil {
		return web.Feed{}, err
	}
	if _, err := ep.Settle(c.Request.Context(), c.Request, &web.Record{}, q.min); err != nil {
		return web.Feed{}, err
	}
	from := c.Request // the feed outlives c, of which Gin makes another request's
	return web.Feed{
		Key: q.atKey, Height: q.pinned, Fresh: ep.policies.Load().Of(ep.row.place, 0).Fresh,
		Read: func(ctx context.Context) (cache.Result, error) {
			return ep.Newest(ctx, ep.query(q, ep.o.Chain.Nodes.Tip()), ep.origin(q, from, &web.Record{}))
		},
	}, nil
}
