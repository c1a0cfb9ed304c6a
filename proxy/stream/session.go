package stream

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// A resumption is the block that a client has seen by its session: answers and frames of
// blocks before it wait a little for those of it.
type resumption struct {
	least  int64     // 0 for none, or when it was waited for
	giveUp time.Time // when older ones are told nonetheless
}

// resumeSession takes note of a client's session, and tells whether the chain was set back
// behind it.
func (cl *client) resumeSession(r *http.Request) (reset bool) {
	seen, _ := session.Parse(r.Header.Get(web.SessionHeader))
	if seen.Height == 0 {
		seen, _ = cl.h.stack.CookieSession(r)
	}
	if seen.Height == 0 || seen.Replaced(cl.h.o.Heights) {
		return seen.Height > 0
	}
	tip := cl.h.o.Heights.Tip()
	cl.least, cl.frames.epoch, cl.frames.told = seen.Height, tip.Epoch, seen.Height-1
	if tip.Known && (tip.Limit == 0 || seen.Height <= tip.Limit) { // else it does not come
		cl.giveUp = time.Now().Add(cache.Patience(cl.h.o.Patience, tip.Interval))
	}
	return false
}

// early is how long what is of a block waits for that of the client's session.
func (cl *client) early(height int64) (wait time.Duration) {
	if height >= cl.least {
		return 0
	}
	if wait = time.Until(cl.giveUp); wait > 0 {
		return wait
	}
	cl.least, cl.frames.told = 0, min(cl.frames.told, cl.h.o.Heights.Tip().Height-1)
	return 0
}
