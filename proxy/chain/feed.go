package chain

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// feed is the request's answer as streams follow it. It waits for the block that
// the request must see.
func (ep *endpoint) feed(c *gin.Context) (web.Feed, error) {
	q, hs, err := ep.parse(c)
	if err != nil {
		return web.Feed{}, err
	}
	ctx := c.Request.Context()
	tip, err := ep.settle(ctx, c.Request, &web.Record{}, &hs)
	if err != nil {
		return web.Feed{}, err
	}
	from := c.Request // all who follow the feed are served in the name of the first
	f := web.Feed{
		Key: q.key, Height: hs.pinned, Fresh: ep.policies.Load().Of(ep.row, 0).Fresh,
		Read: func(ctx context.Context) (cache.Result, error) { return ep.newest(ctx, q, hs, from) },
	}
	if sq, shs, ok := ep.snapshot(ctx, q, hs, tip); ok {
		f.Key, f.Height = "walk "+sq.key, shs.pinned // an explicit height has no tip to go on at
		f.Read = walked(func(ctx context.Context) (cache.Result, error) { return ep.newest(ctx, sq, shs, from) }, f.Read)
	}
	return f, nil
}

// read gives an answer of the cache.
type read = func(ctx context.Context) (cache.Result, error)

// walked reads a later page of a walk at the block of the walk, until no node has
// that block, and from then on at the tip.
func walked(atBlock, atTip read) read {
	pruned := false
	return func(ctx context.Context) (cache.Result, error) {
		if !pruned {
			res, err := atBlock(ctx)
			if err != nil || !outOfReach(res) {
				return res, err
			}
			pruned = true
		}
		return atTip(ctx)
	}
}

func (ep *endpoint) newest(ctx context.Context, q cacheRequest, hs heights, from *http.Request) (cache.Result, error) {
	return ep.Newest(ctx, ep.query(q, hs, ep.o.Nodes.Tip()), ep.origin(q, from, &web.Record{}))
}
