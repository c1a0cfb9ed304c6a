package stream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// SinceParameter makes a GET a poll: it is answered once there is another answer than the
// one whose id it names.
const SinceParameter = "since"

// What polls are told that cannot wait. Another replica may have a place for them.
var (
	errManyPolls = &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true, Public: "too many requests wait for a change"}
	errDrained   = &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true, Public: "this server is about to stop"}
	errNoChain   = &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true, Public: "no node of the chain has answered yet"}
)

// Poll returns the route that serves the polls of rt. query returns the query of the URL at which a
// client goes on, without the id.
func (h *Handler) Poll(rt web.Route, query func(r *http.Request) string) web.Route {
	poll := rt
	poll.Name, poll.Render = "poll", pollRenderer(rt.Render)
	poll.Serve = func(c *gin.Context, rec *record.Record) error {
		rec.KeepOutOfLane()
		had, err := h.readSince(c.Request)
		if err != nil {
			return err
		}
		feed, err := rt.Feed(c.Request)
		if err != nil {
			return err
		}
		if (had != version{}) {
			if err := h.await(c, rec, feed, had, rt.Access); err != nil {
				return err
			}
		}
		rec.Amend = func(a respond.Response) respond.Response {
			now := version{height: a.Entry.Height, digest: digestOf(feed.ComparedBody(a.Entry.Body))}
			now, a.Unchanged = had.next(now, h.o.Heights.Tip().Height)
			a.Next = "?" + withID(query(c.Request), now.text(h.o.Heights.ChainID()))
			return a
		}
		return rt.Serve(c, rec)
	}
	return poll
}

// withID puts an id at the end of a query, however the request had it. Nothing in the
// query ends a Link.
func withID(query, id string) string {
	if query != "" {
		query = linkable.Replace(query) + "&"
	}
	return query + SinceParameter + "=" + id
}

// readSince reads what the client of a poll has.
func (h *Handler) readSince(r *http.Request) (had version, err error) {
	ids, chainID := web.Taken(r)[SinceParameter], h.o.Heights.ChainID()
	switch {
	case len(ids) > 1:
		return had, failure.BadInput("%s is given %d times", SinceParameter, len(ids))
	case chainID == "":
		return had, errNoChain
	}
	return parseVersion(ids[0], chainID)
}

// await returns when the client of a poll may get another answer than it had, or has
// waited for long enough, or the server drains. The time of the request begins then.
func (h *Handler) await(c *gin.Context, rec *record.Record, feed web.Feed, had version, access string) error {
	leave, ok := h.enter(rec.Client.Network(), rec.Client.Name())
	switch {
	case !ok && h.drained.Load():
		return errDrained
	case !ok:
		return errManyPolls
	}
	defer leave()
	p := poll{had: had}
	p.init(h, func() (*web.Payer, error) { return h.stack.Payer(c.Request, rec, access) })
	if err := p.admit(); err != nil {
		return err
	}
	if p.topic = h.topics.subscribe(h.topics.answersOf(feed), &p.follower, &p.subscription); p.topic == nil {
		return errManyPolls
	}
	defer h.topics.unsubscribe(p.topic, &p.follower)
	if err := p.wait(c.Request.Context()); err != nil {
		return err
	}
	if h.drained.Load() {
		c.Header("Retry-After", "1") // there may be no other replica
	}
	now := time.Now()
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(now.Add(h.o.Write))
	rec.Start = now
	return nil
}

// A poll is a follower that waits for one answer.
type poll struct {
	follower
	subscription
	had     version
	ahead   bool          // of this replica: it is woken at each read
	retryIn time.Duration // until it can pay for an answer that there is; 0: it can, or there is none
}

// wait returns when await does.
func (p *poll) wait(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.notify)()
	end := time.Now().Add(p.h.o.LongPoll)
	atEnd := time.AfterFunc(p.h.o.LongPoll, p.notify)
	defer atEnd.Stop()
	solvent := time.AfterFunc(0, p.notify) // for what was there before
	defer solvent.Stop()
	defer func() {
		if p.ahead {
			p.followed.Add(-1)
		}
	}()
	for range p.woken {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !p.admitted():
			return p.admit()
		case p.h.drained.Load() || p.ready(ctx):
			return nil
		case !time.Now().Before(end):
			return p.timedOut()
		case p.retryIn > 0:
			solvent.Reset(p.retryIn)
		}
	}
	return nil
}

// ready tells whether there is another answer than the client had, and it has paid for it.
func (p *poll) ready(ctx context.Context) bool {
	n := p.state.Load()
	if n.answer == nil || n.answer.digest == p.had.digest {
		p.retryIn = 0
		return false
	}
	if n.height <= p.had.height {
		if !p.ahead {
			p.ahead = true
			p.followed.Add(1)
			p.notify() // it may have been read meanwhile
		}
		return false
	}
	p.retryIn = p.spendFor(ctx, &p.subscription)
	return p.retryIn == 0
}

// timedOut says why a poll has waited in vain, if it is not that nothing has changed. What
// was set back is answered as it is now.
func (p *poll) timedOut() error {
	tip := p.h.o.Heights.Tip()
	switch {
	case p.retryIn > 0:
		return &failure.Failure{Status: http.StatusTooManyRequests, RetryAfter: p.retryIn, Expected: true, Public: "too many requests: the limit of this client leaves none for the answer"}
	case p.had.height > tip.Height && (tip.CatchingUp || !tip.Known):
		return &failure.Failure{
			Status: http.StatusGatewayTimeout, RetryAfter: max(tip.Interval, time.Second), Expected: true,
			Public: fmt.Sprintf("block %d has not come; the newest is %d", p.had.height, tip.Height),
		}
	}
	return nil
}

// pollRenderer has refusals and failures shared as answers are. A key is asked for of one
// client.
func pollRenderer(render web.Renderer) web.Renderer {
	return func(r *http.Request, header http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		control := respond.PollLifetime
		if f.Status == http.StatusUnauthorized {
			control = "private, " + control
		}
		header.Set("Cache-Control", control)
		return render(r, header, f)
	}
}

// linkable has no character that ends a URL in a Link.
var linkable = strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20")

// A version is what a client that polls has of an answer. Its text is the id that
// URLs name, alike in all replicas that have read the answer at that block, whatever its
// coding: <height>.<tag>, or <height>.<tag>.<vain>. The tag has the digest of the answer
// and a checksum over all of the id and the chain.
type version struct {
	height int64 // the newest block at which the answer is known to hold
	digest digest
	vain   int64 // polls that have ended since without a newer block: each goes on at another URL
}

// noVersion is the id of a client that has no answer yet.
const noVersion = "0"

// checksumBytes make a tag whole in base64.
const checksumBytes = 3

// text is the id of a version of a chain.
func (v version) text(chainID string) string {
	height, vain := strconv.FormatInt(v.height, 10), ""
	if v.vain > 0 {
		vain = "." + strconv.FormatInt(v.vain, 10)
	}
	tag := v.digest.appendText(nil)
	sum := sha256.Sum256([]byte(chainID + "\n" + height + "." + string(tag) + vain))
	return height + "." + string(base64.RawURLEncoding.AppendEncode(tag, sum[:checksumBytes])) + vain
}

// parseVersion reads an id of a chain. The error is the client's.
func parseVersion(id, chainID string) (v version, err error) {
	if id == noVersion {
		return v, nil
	}
	parts := strings.Split(id, ".")
	ok := len(parts) == 2 || len(parts) == 3
	if ok {
		v.height, err = strconv.ParseInt(parts[0], 10, 64)
		v.digest, ok = parseDigest(parts[1][:min(digestText, len(parts[1]))])
	}
	if ok && err == nil && len(parts) == 3 {
		v.vain, err = strconv.ParseInt(parts[2], 10, 64)
	}
	if !ok || err != nil || v.height < 0 || v.vain < 0 || v.text(chainID) != id {
		return v, failure.BadInput("%s is %q; expected %s, or the id of an answer of this chain, as its Link names it", SinceParameter, web.Short(id), noVersion)
	}
	return v, nil
}

// next is what a client has that had v and is given what is now, where tip is the newest
// block, and tells whether it had that already.
func (v version) next(now version, tip int64) (next version, unchanged bool) {
	switch {
	case v == version{}:
		return now, false
	case now.height < v.height && v.height <= tip: // old, in place of what cannot be read
		now = v
	case now.digest != v.digest:
		return now, false
	}
	if now.height == v.height {
		now.vain = v.vain + 1
	}
	return now, true
}
