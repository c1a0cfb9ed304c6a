package stream

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
)

// WaitParameter makes a request for an item, such as a transaction, wait until a node finds it.
const WaitParameter = "wait"

// maxWait is the longest wait for an item.
const maxWait = 20 * time.Second

// WithoutWait returns the request without WaitParameter, which web.RemovedParameters then returns, and reports whether the
// request had the parameter.
func WithoutWait(r *http.Request) (*http.Request, bool) {
	if r.URL.RawQuery == "" {
		return r, false
	}
	r = web.WithoutParameters(r, func(name, _ string) (as, instead string) {
		if strings.EqualFold(name, WaitParameter) {
			as = WaitParameter
		}
		return as, ""
	})
	return r, web.RemovedParameters(r)[WaitParameter] != nil
}

// Wait returns the route that serves the requests of rt from which WithoutWait has removed the parameter.
func (h *Handler) Wait(rt web.Route) web.Route {
	wait := rt
	wait.Serve = func(c *gin.Context, rec *record.Record) error {
		removed := web.RemovedParameters(c.Request)
		if removed[SinceParameter] != nil {
			return failure.BadInput("%s and %s cannot be combined", WaitParameter, SinceParameter)
		}
		feed := func() (web.Feed, error) { return rt.Feed(c.Request) }
		if err := h.AwaitItem(c, rec, feed, rt.Access, removed[WaitParameter]); err != nil {
			return err
		}
		return rt.Serve(c, rec)
	}
	return wait
}

// AwaitItem waits for the item of a feed, for as long as the values of WaitParameter say. It returns when a node has
// the item or refuses the request, when the time is over, and when the server drains. If the feed has an answer then,
// the request of c carries it (see web.ItemOf).
func (h *Handler) AwaitItem(c *gin.Context, rec *record.Record, feedOf func() (web.Feed, error), access string, values []string) error {
	rec.KeepOutOfLane()
	limit, err := parseWait(values)
	if err != nil {
		return err
	}
	feed, err := feedOf()
	if err != nil {
		return err
	}
	p := &poll{forItem: true, limit: limit}
	if err := h.await(c.Writer, c.Request, rec, feed, access, p); err != nil {
		return err
	}
	if item := p.currentItem(); item != nil {
		c.Request = web.WithItem(c.Request, item)
	}
	return nil
}

// parseWait returns the time that a client waits.
func parseWait(values []string) (time.Duration, error) {
	if len(values) > 1 {
		return 0, failure.BadInput("%s is given %d times", WaitParameter, len(values))
	}
	limit, err := time.ParseDuration(values[0])
	if err != nil || limit <= 0 || limit > maxWait {
		return 0, failure.BadInput("%s is %q; expected a time of at most %v, such as 5s or 500ms", WaitParameter, web.Short(values[0]), maxWait)
	}
	return limit, nil
}

// currentItem returns the newest answer of the topic; nil if there is none since the last rollback or failure.
func (p *poll) currentItem() *cache.Entry { return p.current(p.h.o.Heights.Tip().Epoch).item }

// indexDelay is how long after a block its items are read, because the nodes' index lags by up to 40 ms.
const indexDelay = 50 * time.Millisecond

// awaitIndex waits until the nodes have indexed the newest block.
func (t *topic) awaitIndex(ctx context.Context) error {
	for {
		left := time.Until(t.heights.Tip().Since.Add(indexDelay))
		if left <= 0 {
			return ctx.Err()
		}
		if err := upstream.Sleep(ctx, left); err != nil {
			return err
		}
	}
}
