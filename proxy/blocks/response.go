package blocks

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// varyOn are the request headers that choose between responses of a URL: heights, and Accept, which may request a
// stream.
const varyOn = respond.HeightHeader + ", " + respond.MinHeightHeader + ", " + respond.MinEVMHeader + ", Accept"

// Response returns the response to a query, for interfaces that write it themselves.
func (r *Reader) Response(from *web.Request, q *Read, a *Result) (res respond.Response) {
	r.describe(&res, &from.Record, q, a, time.Now())
	return res
}

// describe fills in a zero Response. It takes a pointer because the stacks of HTTP/2 streams would have to grow for a
// copy.
func (r *Reader) describe(res *respond.Response, rec *record.Record, q *Read, a *Result, now time.Time) {
	immutable := a.Query.Policy.IsImmutable(a.Entry.Stamp())
	r.Show(rec, a)
	res.Result, res.Key, res.Policy = a.Result, a.Query.Key, a.Query.Policy
	res.Now, res.Until = now, a.freshUntil(now)
	res.CatchingUp, res.Seconds = a.Tip.CatchingUp && !immutable, !a.Tip.Known && !immutable
	res.Unconfirmed = a.Tip.Unconfirmed
	res.Private, res.Immutable = r.o.Auth || q.Pinned > 0 && !q.InURL, q.InURL || q.Kind.Class.Fixed()
	if !immutable {
		res.SharedUntil = a.sharedUntil(now)
	}
	if !a.pinned && !immutable {
		res.Session, res.Reset = a.token, rec.Session.Reset
	}
	if res.Reset { // shared caches must not serve it
		res.Control = respond.OwnAnswer
	}
	if res.Vary = varyOn; q.Kind.Headers != nil {
		more := q.Kind.Headers(a.Entry, a.Query.Key)
		res.Vary, res.NoHeight, res.ExtraHeaders = more.Vary, more.NoHeight, more.Extra
	}
}

// Show records the block that the client is about to see. If the client has already seen a block, by its session or on
// its connection, that is later by more than the class allows, Show marks the result as stale. Only interfaces that use
// neither Serve nor Response call it.
func (r *Reader) Show(rec *record.Record, a *Result) {
	r.mark(rec, a)
	rec.Result(a.Result)
	rec.Pinned = a.pinned || a.Query.Policy.IsImmutable(a.Entry.Stamp())
	if a.Entry.Height > a.Tip.Height && a.Entry.Status == http.StatusOK {
		r.Nodes.Raise(a.Entry.Height) // another replica has read at this height
	}
}

func (r *Reader) mark(rec *record.Record, a *Result) {
	height := a.Entry.Height
	if a.pinned || height == 0 || a.Query.Policy.IsImmutable(a.Entry.Stamp()) {
		return
	}
	a.token = session.TokenAt(height, r.Nodes)
	seen := int64(0)
	if a.Tip.Known {
		rec.Session.Show(a.Tip.Epoch, height)
		seen, _ = rec.Session.Seen(a.Tip.Epoch)
	}
	if a.batch && a.Tip.Known { // all its parts may have been older than the tip
		seen = max(seen, a.Tip.Height)
	}
	older := max(rec.Session.Least, a.notified) > height || seen-height > a.Query.Policy.FreshBlocks
	if older && (a.Outcome == cache.Hit || a.Outcome == cache.Miss) {
		a.Outcome = cache.StaleHit
	}
}

// freshUntil returns when the result ceases to be fresh: an estimate of when the block that ends it arrives. It is
// zero if no tip is known, so that freshness is measured in seconds.
func (a *Result) freshUntil(now time.Time) time.Time {
	tip, height := a.Tip, a.Entry.Height
	if !tip.Known {
		return time.Time{}
	}
	if height == 0 || tip.CatchingUp { // the entry's block is unknown, or the tip is not the chain's newest block
		return now
	}
	return blockEnd(tip, now).Add(time.Duration(height+a.Query.Policy.FreshBlocks-tip.Height) * tip.Interval)
}

// sharedUntil returns when shared caches must stop serving the response: when the block ends, even if the class is fresh
// for longer. Otherwise two responses of theirs could be further apart in blocks than two of ours. Without a
// tip it is in one second, the shortest lifetime that Cache-Control can express.
func (a *Result) sharedUntil(now time.Time) time.Time {
	if !a.Tip.Known {
		return now.Add(time.Second)
	}
	return blockEnd(a.Tip, now)
}

// blockEnd returns when the block after the tip is expected, or now if it is late.
func blockEnd(tip node.Tip, now time.Time) time.Time {
	return now.Add(tip.Interval - min(now.Sub(tip.Since), tip.Interval))
}
