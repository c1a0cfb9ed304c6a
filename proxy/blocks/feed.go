package blocks

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
)

// Feed returns the feed of a query for streams. It waits for the block that the request requires.
func (r *Reader) Feed(from *http.Request, q *Read) (web.Feed, error) {
	ctx := from.Context()
	rec := &record.Record{Client: *r.Stack.Admission.ClientOf(from)}
	tip, err := r.awaitRequired(ctx, rec, q)
	if err != nil {
		return web.Feed{}, err
	}
	compared := q.Kind.ComparedBody
	if compared == nil {
		compared = func(body []byte) []byte { return body }
	}
	f := web.Feed{Key: q.key(), Min: q.Min, Undated: !q.Kind.Class.ReadsState(), Indexed: q.Kind.Class == Found, Fresh: q.Kind.policy.Load().Fresh, Read: r.newest(q, tip.Epoch), ComparedBody: compared}
	if at, ok := r.snapshot(ctx, rec, q, tip); ok {
		f.Key = fmt.Sprintf("walk %d %s", tip.Epoch, at.key()) // unlike a feed of that height, it may continue at the tip
		f.Read = r.walked(r.newest(at, tip.Epoch), f.Read, tip.Epoch)
	}
	return f, nil
}

// newest returns a function that reads q through the cache. It returns a stale entry only with the error in Result.Err, unless
// the entry is negative and past its Expires. The block that q requires belongs to an epoch. After a rollback, it does not
// limit the entries.
func (r *Reader) newest(q *Read, epoch int64) readFunc {
	return func(ctx context.Context, client string) (cache.Result, int64, error) {
		ctx, cancel := context.WithDeadline(ctx, r.Stack.Deadline(time.Now()))
		defer cancel()
		tip := r.Nodes.Tip()
		query := r.cacheQuery(q, tip)
		if tip.Epoch != epoch {
			query.MinHeight = 0
		}
		if web.IsAtEachBlock(ctx) {
			limitAge(&query, 0)
		}
		query.Policy.StaleBlocks, query.Policy.Stale = query.Policy.FreshBlocks, query.Policy.Fresh
		res, err := (&loader{Reader: r, q: q, client: client, many: true}).get(ctx, query)
		return res, q.Pinned, err
	}
}

// Forecast fills in the cache query of a plan and returns the height that it would be read at, 0 for the newest.
// It waits for the block that the request requires.
func (r *Reader) Forecast(from *http.Request, q *Read, p web.Plan) (plan web.Plan, pinned int64, err error) {
	ctx := from.Context()
	rec := &record.Record{Client: *r.Stack.Admission.ClientOf(from)}
	tip, err := r.awaitRequired(ctx, rec, q)
	if err != nil {
		return web.Plan{}, 0, err
	}
	if at, ok := r.snapshot(ctx, rec, q, tip); ok {
		q = at
	}
	p.Class, p.Query = string(q.Kind.Class), r.cacheQuery(q, tip)
	p.Loader = &loader{Reader: r, q: q}
	if q.Typos != "" {
		p.NoLane = "a parameter is probably a typo"
	}
	if q.Pinned > 0 {
		p.Class = "pinned"
	}
	return p, q.Pinned, nil
}
