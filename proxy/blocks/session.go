package blocks

import (
	"context"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// resume judges the token of a request: its block is not to be gone behind, unless the
// chain is known to have been set back, so that there is no such block. It is asked again
// after each wait.
func (r *Reader) resume(rec *web.Record) {
	s := &rec.Session
	s.Reset = s.Token.Replaced(r.Nodes)
	if s.Least = s.Token.Height; s.Reset {
		s.Least = 0
	}
}

// gone is the failure of a request that must see a block which the chain has no longer:
// the write that it waits for may be gone with it. It is nil where that is not known.
func (r *Reader) gone(q *Query) error {
	if !(web.Token{Height: q.Min, Hash: q.minHash}).Replaced(r.Nodes) {
		return nil
	}
	return &web.Failure{Status: http.StatusConflict, Expected: true,
		Public: "the chain was set back and has another block " + web.Token{Height: q.Min}.String() + " than the one to be seen"}
}

// follow waits a little for the newest block that the client has seen, by its session or
// on its connection, of which another replica may have told, unless an answer of it is at
// hand, and returns the tip to answer by.
func (r *Reader) follow(ctx context.Context, from *http.Request, rec *web.Record, q *Query, tip node.Tip) node.Tip {
	rec.Session.Token = q.Session
	if r.Stack.SessionCookies() {
		rec.KeepOutOfLane()
		if kept := r.Stack.CookieSession(from); q.Session.Height == 0 && believable(kept, tip) {
			rec.Session.Token = kept
		}
	}
	r.resume(rec)
	wanted := wanted(rec, tip)
	if r.has(q, tip, wanted) {
		return tip
	}
	if seen, _ := rec.Seen(tip.Epoch); wanted > seen {
		leave, err := r.enter(from, rec, tip, web.SessionHeader)
		if err != nil {
			return tip // the answer says that it is an older one
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(ctx, cache.Patience(r.o.Patience, tip.Interval))
	defer cancel()
	_ = r.Nodes.WaitHeight(ctx, wanted) // the answer says that it is an older one
	tip = r.Nodes.Tip()
	r.resume(rec)
	if seen, _ := rec.Seen(tip.Epoch); seen > tip.Height {
		rec.Awaited()
	}
	return tip
}

// wanted is a block that is worth waiting for: one that the client has seen, if it can come
// any moment. It is not above the tip where there is none.
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

// keepSession has a browser keep its session, where cookies carry them. Its cookie stays
// where that says more than the answer, whatever session the request names beside it.
func (r *Reader) keepSession(w http.ResponseWriter, from *http.Request, tip node.Tip, told *web.Answer) {
	kept := r.Stack.CookieSession(from)
	if told.Session.Height == 0 || told.Next != "" { // a poll is shared
		return
	}
	told.Control = web.OwnAnswer
	more := kept.Height > told.Session.Height && believable(kept, tip) && !kept.Replaced(r.Nodes)
	if told.Session != kept && !more {
		r.Stack.SetCookieSession(w, from, told.Session)
	}
}

// believable tells whether the chain can have come to the block of a token.
func believable(t web.Token, tip node.Tip) bool { return tip.Limit == 0 || t.Height <= tip.Limit }
