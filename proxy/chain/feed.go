package chain

import (
	"context"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// feed is the request's answer as streams follow it. It waits for the block that
// the request must see.
func (ep *Endpoint) feed(c *gin.Context) (web.Feed, error) {
	q, tip, err := ep.ask(c)
	if err != nil {
		return web.Feed{}, err
	}
	f := web.Feed{Key: q.Key, Height: q.Pinned, Fresh: ep.policies.Load().rows[ep.place].Fresh, Read: ep.newest(&q), Essence: withoutNextKey}
	if sq, ok := ep.snapshot(c.Request.Context(), &q, tip); ok {
		f.Key, f.Height = "walk "+sq.Key, sq.Pinned // an explicit height has no tip to go on at
		f.Read = walked(ep.newest(sq), f.Read)
	}
	return f, nil
}

// withoutNextKey is a body without the text of its next page key: that moves with the
// blocks while the page stays. A page that becomes the last one, or ceases to be it, says
// another thing.
func withoutNextKey(body []byte) []byte {
	for _, path := range [...]string{"msg." + nextKeyPath, nextKeyPath} {
		if key := nextKeyIn(body, path); key.Index > 0 {
			return slices.Concat(body[:key.Index], body[key.Index+len(key.Raw):])
		}
	}
	return body
}

// read gives an answer of the cache.
type read = func(ctx context.Context, client string) (cache.Result, error)

// walked reads a later page of a walk at the block of the walk, until no node has
// that block, and from then on at the tip.
func walked(atBlock, atTip read) read {
	pruned := false
	return func(ctx context.Context, client string) (cache.Result, error) {
		if !pruned {
			res, err := atBlock(ctx, client)
			if err != nil || !outOfReach(res) {
				return res, err
			}
			pruned = true
		}
		return atTip(ctx, client)
	}
}

// newest asks the cache for an answer that is not stale.
func (ep *Endpoint) newest(q *Question) read {
	return func(ctx context.Context, client string) (cache.Result, error) {
		ctx, cancel := context.WithDeadline(ctx, ep.Stack.Deadline(time.Now()))
		defer cancel()
		query := ep.query(q, ep.Nodes.Tip())
		query.Policy.StaleBlocks, query.Policy.Stale = query.Policy.FreshBlocks, query.Policy.Fresh
		return ep.Cache.Get(ctx, query, func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
			return ep.fetch(ctx, q, client, prev)
		})
	}
}
