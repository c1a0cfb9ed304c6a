package blocks

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Feed is a query's answer as streams follow it. It waits for the block that the
// request must see.
func (r *Reader) Feed(from *http.Request, q *Query) (web.Feed, error) {
	ctx := from.Context()
	tip, err := r.awaitRequired(ctx, from, &web.Record{}, q)
	if err != nil {
		return web.Feed{}, err
	}
	essence := q.Kind.Essence
	if essence == nil {
		essence = func(body []byte) []byte { return body }
	}
	f := web.Feed{Key: q.key(), Height: q.Pinned, Undated: !q.Kind.Class.Pinned(), Fresh: q.Kind.policy.Load().Fresh, Read: r.newest(q), Essence: essence}
	if at, ok := r.snapshot(ctx, q, tip); ok {
		f.Key, f.Height = "walk "+at.key(), at.Pinned // an explicit height has no tip to go on at
		f.Read = walked(r.newest(at), f.Read)
	}
	return f, nil
}

// reads gives an answer of the cache.
type reads = func(ctx context.Context, client string) (cache.Result, error)

// walked reads a later page of a walk at the block of the walk, until no node has
// that block, and from then on at the tip.
func walked(atBlock, atTip reads) reads {
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
func (r *Reader) newest(q *Query) reads {
	return func(ctx context.Context, client string) (cache.Result, error) {
		ctx, cancel := context.WithDeadline(ctx, r.Stack.Deadline(time.Now()))
		defer cancel()
		asked := r.asked(q, r.Nodes.Tip())
		if web.IsAtEachBlock(ctx) {
			asked.Policy.FreshBlocks = 0
		}
		asked.Policy.StaleBlocks, asked.Policy.Stale = asked.Policy.FreshBlocks, asked.Policy.Fresh
		return (&asking{Reader: r, q: q, client: client}).get(ctx, asked)
	}
}

// Forecast is what the cache would be asked for a query, and the block that it would be
// read at, 0 for the newest. It waits for the block that the request must see.
func (r *Reader) Forecast(from *http.Request, q *Query) (asked cache.Query, pinned int64, err error) {
	ctx := from.Context()
	var tip node.Tip
	if tip, err = r.awaitRequired(ctx, from, &web.Record{}, q); err != nil {
		return asked, 0, err
	}
	if at, ok := r.snapshot(ctx, q, tip); ok {
		q = at
	}
	return r.asked(q, tip), q.Pinned, nil
}
