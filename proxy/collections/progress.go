package collections

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
)

// Progress is how far the collection store has come: all of it as of one moment.
type Progress struct {
	Generation int64         // of store.Page, the newest known; 0: unknown, and pages are fresh by seconds
	Block      int64         // of the execution chain, the last that the store has counted; 0: none yet, or it follows no chain
	Behind     time.Duration // age of that block
	Filling    bool          // an indexer fills the store and has not counted anything yet, nor was anything imported
}

func (h *Handler) progress() (p Progress) {
	if h.o.Progress != nil {
		p = h.o.Progress()
	}
	return p
}

// query asks the cache for a page. Where the store's generation is known, a page
// is fresh until the store changes, and is judged as the chain's answers are by
// blocks, only that its height is an edition.
func (h *Handler) query(asked listing, p Progress) cache.Query {
	q := cache.Query{Key: asked.Key, LatencyClass: kind, Policy: h.o.Policy}
	if p.Generation > 0 && !asked.Nothing {
		q.Tip = h.edition(p.Generation, time.Now())
		// Reading the store anew takes milliseconds, so an outdated page is only
		// for the time in which that fails.
		q.Policy.FreshBlocks, q.Policy.StaleBlocks, q.Policy.ErrorBlocks = 0, 0, math.MaxInt64
	}
	return q
}

// kind separates these reads from the chain's in what the cache learns of how long
// reads take.
const kind = 7

// edition numbers what a page can say: it grows with the store's generation and,
// since a page holds metadata too, with time. Neither goes down, so it does not.
func (h *Handler) edition(generation int64, now time.Time) int64 {
	return generation + now.UnixNano()/h.term()
}

// generation is the store's generation in the edition of a page.
func (h *Handler) generation(e *cache.Entry) int64 { return e.Height - e.ReadAt.UnixNano()/h.term() }

// term is the longest time for which a page serves unchanged, in nanoseconds.
func (h *Handler) term() int64 { return int64(max(h.o.Policy.Stale, time.Second)) }

// editionOf is the edition of a page just read; 0 where the store has no generations.
func (h *Handler) editionOf(page store.Page, now time.Time) int64 {
	if h.o.Progress == nil || page.Generation == 0 {
		return 0
	}
	return h.edition(page.Generation, now)
}

// freshUntil is when a page is read anew though the store stays as it is; zero for
// one that is judged by seconds.
func (h *Handler) freshUntil(q cache.Query, e *cache.Entry, now time.Time) time.Time {
	switch {
	case q.Tip == 0:
		return time.Time{}
	case e.Height < q.Tip:
		return now
	default:
		return time.Unix(0, (now.UnixNano()/h.term()+1)*h.term())
	}
}

// fillingRetry is when a store that is filled for the first time is worth another
// look.
const fillingRetry = 5 * time.Second

// awaited returns how far the store is, once it has counted the block that the
// client has to see, 0 for none. Its errors are the client's, or a block that does not
// come in time.
func (h *Handler) awaited(ctx context.Context, r *http.Request, rec *web.Record, block int64) (Progress, error) {
	p := h.progress()
	switch {
	case block <= p.Block:
		return p, nil
	case h.o.Await == nil || p.Block == 0 && !p.Filling:
		return p, web.BadInput("%s cannot be waited for: no indexer fills this store", web.MinEVMHeader)
	}
	leave, err := h.waiters.Enter(r, rec.Tenant, time.Second)
	if err != nil {
		return p, err
	}
	defer leave()
	waiting, cancel := context.WithTimeout(ctx, h.o.MinHeightWait)
	defer cancel()
	err = h.o.Await(waiting, block)
	if p = h.progress(); errors.Is(err, context.DeadlineExceeded) {
		err = &web.Failure{Status: http.StatusGatewayTimeout, RetryAfter: time.Second, Err: err, Expected: true,
			Public: "block " + strconv.FormatInt(block, 10) + " has not been counted; the last one is " + strconv.FormatInt(p.Block, 10)}
	}
	return p, err
}

// holdsAt is the block up to which everything is counted on a page. A page that is
// older than what the store holds has that of its generation.
func (h *Handler) holdsAt(e *cache.Entry, q *cache.Query, p Progress) int64 {
	switch {
	case e.Height >= q.Tip:
		return p.Block
	case e.Height == 0 || h.o.Counted == nil:
		return 0
	default:
		return h.o.Counted(h.generation(e))
	}
}
