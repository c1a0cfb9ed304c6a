package blocks

import "github.com/tipcache/tipcache/proxy/web"

// Forecast fills in the cache query of a plan and returns the height that it would be read at, 0 for the newest.
// It waits for the block that the request requires.
func (r *Reader) Forecast(from *web.Request, q *Read, p web.Plan) (plan web.Plan, pinned int64, err error) {
	ctx := from.Context()
	tip, err := r.awaitRequired(ctx, from, q)
	if err != nil {
		return web.Plan{}, 0, err
	}
	if q.Pinned == 0 && r.Stack.SessionCookies() {
		p.NoLane = "cookies keep the sessions of clients"
	}
	if at, ok := r.snapshot(ctx, from, q, tip); ok {
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
