package collections

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// fillingRetry is when a store that is filled for the first time is worth another
// look.
const fillingRetry = 5 * time.Second

// awaited returns how far the store is, once it has counted the block that the
// client has to see, 0 for none. Each way to fail is the client's doing or the
// chain's pace.
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

// readBlock reads the header strictly; 0 is none.
func readBlock(values []string) (int64, error) {
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n <= 0 || strings.Trim(values[0], "0123456789") != "" {
		return 0, web.BadInput("%s is %q; expected a positive integer", web.MinEVMHeader, web.Short(values[0]))
	}
	return n, nil
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
