package stream

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
)

// WaitParameter makes a request for an item, such as a transaction, wait until a node finds it.
const WaitParameter = "wait"

// maxWait is the longest wait for an item.
const maxWait = 20 * time.Second

// TakeWait moves WaitParameter from the query of a request to its Options, and reports whether the request has the parameter.
func TakeWait(r *web.Request) bool {
	if r.URL.RawQuery == "" {
		return false
	}
	r.RemoveParameters(func(name, _ string) (as, instead string) {
		if strings.EqualFold(name, WaitParameter) {
			as = WaitParameter
		}
		return as, ""
	})
	return r.Options[WaitParameter] != nil
}

// Wait returns the route that serves the requests of rt from which TakeWait has taken the parameter.
func (h *Handler) Wait(rt web.Route) web.Route {
	wait := rt
	wait.Serve = func(r *web.Request) error {
		if r.Options[web.SinceParameter] != nil {
			return failure.BadInput("%s and %s cannot be combined", WaitParameter, web.SinceParameter)
		}
		if err := h.AwaitItem(r, rt.Feed, rt.Access, r.Options[WaitParameter]); err != nil {
			return err
		}
		return rt.Serve(r)
	}
	return wait
}

// AwaitItem waits for the item of a feed, for as long as the values of WaitParameter say. It returns when a node has
// the item or refuses the request, when the time is over, and when the server drains. If the feed has an answer then, it sets
// r.Item.
func (h *Handler) AwaitItem(r *web.Request, feedOf func(*web.Request) (web.Feed, error), access string, values []string) error {
	r.Record.KeepOutOfLane()
	limit, err := parseWait(values)
	if err != nil {
		return err
	}
	feed, err := feedOf(r)
	if err != nil {
		return err
	}
	p := &poll{forItem: true, limit: limit}
	if err := h.await(r, feed, access, p); err != nil {
		return err
	}
	r.Item = p.currentItem()
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

// busyIndexDelay is how long after a block an item that was missing is read again, because the index of a busy node lags by more.
const busyIndexDelay = 500 * time.Millisecond

// isMissing reports whether the nodes did not find the item.
func (n *topicState) isMissing() bool { return n.item != nil && n.item.Status == http.StatusNotFound }

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
