package blocks

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// Feed returns the feed of a read for streams. It waits for the block that the request requires.
func (r *Reader) Feed(from *web.Request, q *Read) (web.Feed, error) {
	ctx := from.Context()
	tip, err := r.awaitRequired(ctx, from, q)
	if err != nil {
		from.Record.Tip = tip.Height
		return web.Feed{}, err
	}
	compared := q.Kind.ComparedBody
	if compared == nil {
		compared = func(body []byte) []byte { return body }
	}
	reader := &feedReader{Reader: r, q: q, epoch: tip.Epoch}
	f := web.Feed{Key: q.key(), Min: q.Min, Undated: !q.Kind.Class.ReadsState(), Indexed: q.Kind.Class == Found, Fresh: q.Kind.policy.Load().Fresh, Reader: reader, ComparedBody: compared}
	if at, ok := r.snapshot(ctx, from, q, tip); ok {
		f.Key = fmt.Sprintf("walk %d %s", tip.Epoch, at.key()) // unlike a feed of that height, it may continue at the tip
		reader.walk = at
	}
	return f, nil
}

// A feedReader implements [web.FeedReader].
type feedReader struct {
	*Reader
	q     *Read
	walk  *Read // the later page that q is, at the block of its walk; nil for none
	epoch int64 // to which the block belongs that q requires
}

// Read implements [web.FeedReader]. A later page of a walk is read at the block of the walk until a rollback ends the epoch or no
// node has that block, and then at the tip.
func (f *feedReader) Read(ctx context.Context, client string, newest bool) (cache.Result, int64, error) {
	if f.walk != nil && f.Nodes.Tip().Epoch == f.epoch {
		res, err := f.read(ctx, f.walk, client, newest)
		if err != nil || !isOutOfReach(res) {
			return res, f.walk.Pinned, err
		}
	}
	f.walk = nil
	res, err := f.read(ctx, f.q, client, newest)
	return res, f.q.Pinned, err
}

// read reads through the cache. It returns a stale entry only with the error in Result.Err, unless the entry is negative and past
// its Expires. After a rollback, the required block does not limit the entries.
func (f *feedReader) read(ctx context.Context, q *Read, client string, newest bool) (cache.Result, error) {
	ctx, cancel := context.WithDeadline(ctx, f.Stack.Deadline(time.Now()))
	defer cancel()
	tip := f.Nodes.Tip()
	query := f.cacheQuery(q, tip)
	if tip.Epoch != f.epoch {
		query.MinHeight = 0
	}
	if newest {
		limitAge(&query, 0)
	}
	query.Policy.StaleBlocks, query.Policy.Stale = query.Policy.FreshBlocks, query.Policy.Fresh
	return (&loader{Reader: f.Reader, q: q, client: client, many: true}).get(ctx, query)
}
