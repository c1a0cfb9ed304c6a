package blocks

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An asking asks a query's origin, which is what a miss comes to, on behalf of a client.
// What is read ahead block by block is asked for by that of one request, so that nothing
// of the request is held once its client is known.
type asking struct {
	*Reader
	q *Query

	mu     sync.Mutex
	from   *http.Request // nil: client is known
	rec    *web.Record
	client string
}

// get asks the cache.
func (a *asking) get(ctx context.Context, asked cache.Query) (cache.Result, error) {
	asked.Queue = a
	return a.cache.Get(ctx, asked, a.read)
}

// read is a [cache.Origin].
func (a *asking) read(ctx context.Context, before *cache.Entry) (*cache.Entry, error) {
	if a.q.Page != nil {
		return a.compose(ctx, before)
	}
	q, r := a.q, a.request()
	r.Background, r.Ahead = cache.InBackground(ctx), cache.Ahead(ctx)
	answer, err := fetch(ctx, q, r, before)
	if err = silence(answer, err, q.Pinned == 0, before != nil && q.Kind.policy.Load().Outlives(before)); err != nil {
		return nil, err
	}
	return q.Origin.Entry(answer, before)
}

// Expected implements [cache.Queue].
func (a *asking) Expected(background bool) time.Duration {
	r := a.request()
	r.Background = background
	return a.Nodes.Expected(r)
}

// request is what the origin is told.
func (a *asking) request() node.Request {
	return node.Request{Height: cmp.Or(a.q.Pinned, node.AtTip), Unpinned: !a.q.Kind.Class.Pinned(), Cost: a.q.Cost, Client: a.name()}
}

// name is the client's.
func (a *asking) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != nil {
		a.client = a.Stack.Client(a.from, a.rec)
		a.from, a.rec = nil, nil
	}
	return a.client
}
