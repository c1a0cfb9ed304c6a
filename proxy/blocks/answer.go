package blocks

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// varyOn are the request headers that choose between answers of a URL: heights,
// and Accept, which may ask for a stream.
const varyOn = web.HeightHeader + ", " + web.MinHeightHeader + ", " + web.MinEVMHeader + ", Accept"

// Respond writes an answer to a query. a has no entry any more.
func (r *Reader) Respond(w http.ResponseWriter, from *http.Request, rec *web.Record, q *Query, a *Answer) {
	var told web.Answer
	r.tell(&told, rec, q, a, time.Now())
	if rec.Amend != nil {
		told = rec.Amend(told)
	}
	a.Entry = nil
	if r.Stack.SessionCookies() {
		r.keepSession(w, from, a.Tip, &told)
	}
	r.Stack.Respond(w, from, &told)
}

// Told is what a client is told of an answer, for interfaces that write it themselves.
func (r *Reader) Told(rec *web.Record, q *Query, a *Answer) (told web.Answer) {
	r.tell(&told, rec, q, a, time.Now())
	return told
}

// tell makes of a zero Answer what a client is told. It makes no copy of one, for which the stack of a
// stream of HTTP/2 has no room.
func (r *Reader) tell(told *web.Answer, rec *web.Record, q *Query, a *Answer, now time.Time) {
	r.Show(rec, a)
	immutable := a.Asked.Policy.IsImmutable(a.Entry.Stamp())
	told.Result, told.Key, told.Policy = a.Result, a.Asked.Key, a.Asked.Policy
	told.Now, told.Until = now, a.freshUntil(now)
	told.CatchingUp, told.Seconds = a.Tip.CatchingUp && !immutable, !a.Tip.Known && !immutable
	told.Unconfirmed = a.Tip.Unconfirmed
	told.Private, told.Immutable = r.o.Auth || q.Pinned > 0 && !q.InURL, q.InURL || q.Kind.fixed
	if !immutable {
		told.SharedUntil = a.sharedUntil(now)
	}
	if !a.pinned && !immutable {
		told.Session, told.Reset = web.TokenAt(a.Entry.Height, r.Nodes), rec.Session.Reset
	}
	if told.Reset { // no answer for others
		told.Control = web.OwnAnswer
	}
	if told.Vary = varyOn; q.Kind.Tell != nil {
		more := q.Kind.Tell(a.Entry, a.Asked.Key)
		told.Vary, told.NoHeight, told.More = more.Vary, more.NoHeight, more.Lines
	}
}

// Show notes what the client is about to see, and calls an answer stale that is of a
// block before the one of the client's session, or before one that it has seen on its
// connection, by more than the class allows. It is for answers that Respond does not write.
func (r *Reader) Show(rec *web.Record, a *Answer) {
	a.mark(rec)
	rec.Result(a.Result)
	if a.Entry.Height > a.Tip.Height && a.Entry.Status == http.StatusOK {
		r.Nodes.Raise(a.Entry.Height) // another replica has read there
	}
}

func (a *Answer) mark(rec *web.Record) {
	height := a.Entry.Height
	if a.pinned || height == 0 || a.Asked.Policy.IsImmutable(a.Entry.Stamp()) {
		return
	}
	seen := int64(0)
	if a.Tip.Known {
		rec.Show(a.Tip.Epoch, height)
		seen, _ = rec.Seen(a.Tip.Epoch)
	}
	if a.batch && a.Tip.Known { // whose parts may all have been older, when it was made
		seen = max(seen, a.Tip.Height)
	}
	older := max(rec.Session.Least, a.announced) > height || seen-height > a.Asked.Policy.FreshBlocks
	if older && (a.Outcome == cache.Hit || a.Outcome == cache.Miss) {
		a.Outcome = cache.StaleHit
	}
}

// freshUntil is when an answer ceases to be fresh. In blocks that is an
// estimate: when the block that ends it is expected. It is zero where freshness
// is measured in seconds, because no tip is known.
func (a *Answer) freshUntil(now time.Time) time.Time {
	tip, height := a.Tip, a.Entry.Height
	if !tip.Known {
		return time.Time{}
	}
	if height == 0 || tip.CatchingUp { // of a time when no tip was known, so of any block; or not of the newest
		return now
	}
	return blockEnd(tip, now).Add(time.Duration(height+a.Asked.Policy.FreshBlocks-tip.Height) * tip.Interval)
}

// sharedUntil is until when a cache before us may give an answer to others: until the
// block ends, also where the class is fresh for longer, or that cache would have answers
// whose blocks are further apart than ours. Without a tip it is the shortest time that
// caches know.
func (a *Answer) sharedUntil(now time.Time) time.Time {
	if !a.Tip.Known {
		return now.Add(time.Second)
	}
	return blockEnd(a.Tip, now)
}

// blockEnd is when the block after the tip is expected, or now if it is late.
func blockEnd(tip node.Tip, now time.Time) time.Time {
	return now.Add(tip.Interval - min(now.Sub(tip.Seen), tip.Interval))
}
