package blocks

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// rolledBack returns the failure of a request that requires a block which was rolled back, because the write that
// it waits for may be lost. It returns nil if no rollback is known.
func (r *Reader) rolledBack(q *Read) error {
	if !q.Required.Replaced(r.Nodes) {
		return nil
	}
	return &failure.Failure{Status: http.StatusConflict, Expected: true,
		Public: fmt.Sprintf("block %d was rolled back, so a transaction in it may be lost: look for it, and repeat the request without this block", q.Required.Height)}
}

// awaitSeen waits briefly for the newest block that the client has seen, by its session or on its connection,
// unless memory has an entry from it, which another replica may have read. It returns the tip to serve at.
func (r *Reader) awaitSeen(ctx context.Context, from *web.Request, q *Read, tip node.Tip) node.Tip {
	rec := &from.Record
	rec.Session.Token = q.Session
	if r.Stack.SessionCookies() {
		rec.KeepOutOfLane()
		if q.Session.Height == 0 {
			rec.Session.Token = r.Stack.CookieSession(from.Request, r.Nodes.ChainID(), tip)
		}
	}
	rec.Session.Resume(r.Nodes)
	wanted := rec.Session.Wanted(tip)
	if r.canServe(q, tip, wanted) {
		return tip
	}
	if seen, _ := rec.Session.Seen(tip.Epoch); wanted > seen {
		leave, err := r.acquireWait(&rec.Client, tip, session.Header)
		if err != nil {
			return tip // the response is marked as stale
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(ctx, cache.Patience(r.o.Patience, tip.Interval))
	defer cancel()
	_ = r.waitHeight(ctx, rec, wanted) // the response is marked as stale
	tip = r.Nodes.Tip()
	rec.Session.Resume(r.Nodes)
	if seen, _ := rec.Session.Seen(tip.Epoch); seen > tip.Height {
		rec.Session.GiveUp()
	}
	return tip
}

// KeepSession sets the session cookie and makes the response private, if this server uses session cookies. If the cookie of
// the request has a later block than the response, it does not change the cookie. Serve calls KeepSession.
func (r *Reader) KeepSession(from *web.Request, tip node.Tip, res *respond.Response) {
	if !r.Stack.SessionCookies() || res.Session.Height == 0 || res.Next != "" { // the response to a poll is shared
		return
	}
	kept := r.Stack.CookieSession(from.Request, r.Nodes.ChainID(), tip)
	res.Control = respond.OwnAnswer
	isLater := kept.Height > res.Session.Height && !kept.Replaced(r.Nodes)
	if res.Session != kept && !isLater {
		r.Stack.SetCookieSession(from.Writer, from.Request, r.Nodes.ChainID(), res.Session)
	}
}
