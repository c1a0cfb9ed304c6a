package proxy

import (
	"math"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/collections"
)

// StoreProgress is how far the collection store has come.
type StoreProgress struct {
	Generation int64         // of collections.Page, the newest known; 0: unknown, and pages are fresh by seconds
	Behind     time.Duration // age of the last block the store has counted; 0: it does not follow a chain
}

func (l *lister) progress() (p StoreProgress) {
	if l.Progress != nil {
		p = l.Progress()
	}
	return p
}

// query asks the cache for a page. Where the store's generation is known, a page
// is fresh until the store changes, and is judged as the chain's answers are by
// blocks, only that its height is an edition.
func (l *lister) query(asked listing) cache.Query {
	q := l.querySeconds(asked)
	if g := l.progress().Generation; g > 0 && !asked.Nothing {
		q.Tip = l.edition(g, time.Now())
		// Reading the store anew takes milliseconds, so an outdated page is only
		// for the time in which that fails.
		q.Policy.FreshBlocks, q.Policy.StaleBlocks, q.Policy.ErrorBlocks = 0, 0, math.MaxInt64
	}
	return q
}

// querySeconds asks for a page that is fresh by the time it was read at.
func (l *lister) querySeconds(asked listing) cache.Query {
	return cache.Query{Key: asked.Key, Policy: l.Policy}
}

// edition numbers what a page can say: it grows with the store's generation and,
// since a page holds metadata too, with time. It never goes down as neither does.
func (l *lister) edition(generation int64, now time.Time) int64 {
	return generation + now.UnixNano()/l.term()
}

// term is how long a page stays as it is at most, in nanoseconds.
func (l *lister) term() int64 { return int64(max(l.Policy.Stale, time.Second)) }

// editionOf is that of a page just read; 0 where the store tells no generation.
func (l *lister) editionOf(page collections.Page, now time.Time) int64 {
	if l.Progress == nil || page.Generation == 0 {
		return 0
	}
	return l.edition(page.Generation, now)
}

// lasts is until when a page stays as it is if the store does: zero for one that
// is judged by seconds.
func (l *lister) lasts(q cache.Query, e *cache.Entry, now time.Time) time.Time {
	switch {
	case q.Tip == 0:
		return time.Time{}
	case e.Height < q.Tip:
		return now
	default:
		return time.Unix(0, (now.UnixNano()/l.term()+1)*l.term())
	}
}
