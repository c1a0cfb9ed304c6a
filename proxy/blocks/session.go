package blocks

import (
	"context"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// resume judges the session token of a request. The response must not be older than its block, unless that block was
// rolled back. It is called again after each wait.
func (r *Reader) resume(rec *web.Record) {
	s := &rec.Session
	s.Reset = s.Token.Replaced(r.Nodes)
	if s.Least = s.Token.Height; s.Reset {
		s.Least = 0
	}
}

// rolledBack returns the failure of a request that requires a block which was rolled back, because the write that it
// waits for may be gone. It returns nil if that is not known.
func (r *Reader) rolledBack(q *Query) error {
	if !(web.Token{Height: q.Min, Hash: q.minHash}).Replaced(r.Nodes) {
		return nil
	}
	return &web.Failure{Status: http.StatusConflict, Expected: true,
		Public: "the chain was set back and has another block " + web.Token{Height: q.Min}.String() + " than the one to be seen"}
}

// follow waits briefly for the newest block that the client has seen, by its session or on its connection, unless
// memory has an entry from it. Another replica may have served that block. It returns the tip to serve by.
func (r *Reader) follow(ctx context.Context, from *http.Request, rec *web.Record, q *Query, tip node.Tip) node.Tip {
	rec.Session.Token = q.Session
	if r.Stack.SessionCookies() {
		rec.KeepOutOfLane()
		if kept := r.Stack.CookieSession(from); q.Session.Height == 0 && isBelievable(kept, tip) {
			rec.Session.Token = kept
		}
	}
	r.resume(rec)
	wanted := wanted(rec, tip)
	if r.canServe(q, tip, wanted) {
		return tip
	}
	if seen, _ := rec.Seen(tip.Epoch); wanted > seen {
		leave, err := r.enterWaiters(from, rec, tip, web.SessionHeader)
		if err != nil {
			return tip // the response is marked as stale
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(ctx, cache.Patience(r.o.Patience, tip.Interval))
	defer cancel()
	_ = r.Nodes.WaitHeight(ctx, wanted) // the response is marked as stale
	tip = r.Nodes.Tip()
	r.resume(rec)
	if seen, _ := rec.Seen(tip.Epoch); seen > tip.Height {
		rec.GiveUp()
	}
	return tip
}

// wanted returns the block that the client has seen if that can arrive any moment. It is not above the tip if there is
// no such block.
func wanted(rec *web.Record, tip node.Tip) (height int64) {
	if !tip.Known {
		return 0
	}
	if seen, awaited := rec.Seen(tip.Epoch); !awaited {
		height = seen
	}
	if least := rec.Session.Least; tip.Limit == 0 || least <= tip.Limit {
		height = max(height, least)
	}
	return height
}

// keepSession sets the session cookie, if cookies carry sessions. A cookie with a later block than the response stays,
// whatever session the request names.
func (r *Reader) keepSession(w http.ResponseWriter, from *http.Request, tip node.Tip, res *web.Response) {
	kept := r.Stack.CookieSession(from)
	if res.Session.Height == 0 || res.Next != "" { // the response to a poll is shared
		return
	}
	res.Control = web.OwnAnswer
	more := kept.Height > res.Session.Height && isBelievable(kept, tip) && !kept.Replaced(r.Nodes)
	if res.Session != kept && !more {
		r.Stack.SetCookieSession(w, from, res.Session)
	}
}

// isBelievable reports whether the chain can have reached the block of a token.
func isBelievable(t web.Token, tip node.Tip) bool { return tip.Limit == 0 || t.Height <= tip.Limit }
