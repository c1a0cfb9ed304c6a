package stream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// Refusals of polls. Another replica may accept them.
var (
	errClientFull = &failure.Failure{Status: http.StatusTooManyRequests, RetryAfter: time.Second, Expected: true, Public: "too many streams and waiting requests of this client"}
	errManyPolls  = &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true, Public: "too many requests wait for a change"}
	errDrained    = &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true, Public: "this server is about to stop"}
	errNoChain    = &failure.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true, Public: "no node of the chain has answered yet"}
)

// Poll returns the route that serves the polls of rt.
func (h *Handler) Poll(rt web.Route) web.Route {
	polled := rt
	polled.Name, polled.Render = "poll", pollRenderer(rt.Render)
	polled.Serve = func(r *web.Request) error {
		r.Record.KeepOutOfLane()
		had, err := h.readSince(r)
		if err != nil {
			return err
		}
		feed, err := rt.Feed(r)
		if err != nil {
			return err
		}
		if (had != version{}) {
			if err := h.await(r, feed, rt.Access, &poll{had: had}); err != nil {
				return err
			}
		}
		r.Amend = func(a *respond.Response) {
			now := version{height: a.Entry.Height, digest: digestOf(feed.ComparedBody(a.Entry.Body))}
			now, a.Unchanged = had.next(now, h.o.Heights.Tip().Height)
			a.Next = "?" + withVersion(web.RestorePinned(r), now.text(h.o.Heights.ChainID()))
		}
		return rt.Serve(r)
	}
	return polled
}

// withVersion appends a version to a query and escapes characters that would end the URL in a Link header.
func withVersion(query, id string) string {
	if query != "" {
		query = linkable.Replace(query) + "&"
	}
	return query + web.SinceParameter + "=" + id
}

// readSince returns the version that the client has.
func (h *Handler) readSince(r *web.Request) (had version, err error) {
	ids, chainID := r.Options[web.SinceParameter], h.o.Heights.ChainID()
	switch {
	case len(ids) > 1:
		return had, failure.BadInput("%s is given %d times", web.SinceParameter, len(ids))
	case chainID == "":
		return had, errNoChain
	}
	return parseVersion(ids[0], chainID)
}

// await waits until p has an answer, the poll has timed out, or the server drains. It fails if the client leaves or is
// refused. The request's duration is measured from the end of the wait.
func (h *Handler) await(r *web.Request, feed web.Feed, access string, p *poll) error {
	leave, err := h.enter(&r.Record.Client, errManyPolls)
	if err != nil {
		return err
	}
	defer leave()
	discardBody(r)
	p.epoch = h.o.Heights.Tip().Epoch
	p.init(h, &r.Record.Client, func() (*web.Limiter, error) { return h.stack.Limiter(r, access) })
	if err := p.admit(); err != nil {
		return err
	}
	if p.topic, err = h.topics.subscribe(feedSource(feed), &p.follower, &p.subscription); err != nil {
		return refusal(err, errManyPolls)
	}
	defer h.topics.unsubscribe(p.topic, &p.follower)
	if err := p.wait(r.Context()); err != nil {
		return err
	}
	if h.drained.Load() {
		r.ResponseHeader.Set("Retry-After", "1") // so that a client without another replica does not retry at once
	}
	now := time.Now()
	_ = http.NewResponseController(r.Writer).SetWriteDeadline(now.Add(h.o.Write))
	r.Record.Start, r.Record.Waited = now, 0
	return nil
}

// poll is a follower that waits for one answer.
type poll struct {
	follower
	subscription
	had     version
	epoch   int64         // when the poll began; in a later one, the height of had says nothing
	forItem bool          // wait for the item of an indexed source, whatever its version
	limit   time.Duration // longest wait; 0 means Options.LongPoll
	ahead   bool          // the client's version is newer than this replica's answer: wake the poll at each read
	retryIn time.Duration // until the client's limits allow the answer; 0 if they do or there is none
}

// wait is await without the set-up.
func (p *poll) wait(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.notify)()
	limit := min(cmp.Or(p.limit, p.h.o.LongPoll), p.h.o.LongPoll)
	end := time.Now().Add(limit)
	atEnd := time.AfterFunc(limit, p.notify)
	defer atEnd.Stop()
	paymentTimer := time.AfterFunc(0, p.notify) // check what is already available
	defer paymentTimer.Stop()
	defer func() {
		if p.ahead {
			p.topic.pollsAhead.Add(-1)
		}
	}()
	for range p.woken {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !p.admitted():
			return p.admit()
		case p.ended.Load():
			return errManyPolls
		case p.h.drained.Load() || p.ready(ctx):
			return nil
		case !time.Now().Before(end):
			return p.timedOut()
		case p.retryIn > 0:
			paymentTimer.Reset(p.retryIn)
		}
	}
	return nil
}

// ready reports whether there is an answer to end the wait, and the client has been charged for it.
func (p *poll) ready(ctx context.Context) bool {
	if p.retryIn = 0; !p.isNew() {
		return false
	}
	p.retryIn = p.spendFor(ctx, &p.subscription)
	return p.retryIn == 0
}

// isNew reports whether the answer differs from the client's version or, for an item, a node has it or refuses the request
// for a reason that no block changes.
func (p *poll) isNew() bool {
	if p.forItem {
		item := p.currentItem()
		return item != nil && item.Status != http.StatusNotFound && !item.Failed
	}
	n := p.topic.state.Load()
	if n.answer == nil || n.answer.digest == p.had.digest {
		return false
	}
	if n.height <= p.had.height && n.epoch <= p.epoch && p.h.o.Heights.Tip().Allows(p.had.height) {
		if !p.ahead {
			p.ahead = true
			p.topic.pollsAhead.Add(1)
			p.notify() // the answer may have been read meanwhile
		}
		return false
	}
	return true
}

// timedOut returns the error of a poll that timed out: the client's limits forbid the answer, or its block has not arrived.
// It returns nil if the current answer may be sent.
func (p *poll) timedOut() error {
	tip := p.h.o.Heights.Tip()
	switch {
	case p.retryIn > 0:
		return &failure.Failure{Status: http.StatusTooManyRequests, RetryAfter: p.retryIn, Expected: true, Public: "too many requests: the limit of this client does not allow the answer yet"}
	case p.had.height > tip.Height && (tip.CatchingUp || !tip.Known):
		return &failure.Failure{
			Status: http.StatusGatewayTimeout, RetryAfter: max(tip.Interval, time.Second), Expected: true,
			Public: fmt.Sprintf("block %d has not arrived; the newest is %d", p.had.height, tip.Height),
		}
	}
	return nil
}

// pollRenderer makes failures cacheable for as long as answers, and says when to poll again. A refusal below 500 may depend on a
// key, a limit, a header or the body of one client, and is private.
func pollRenderer(render web.Renderer) web.Renderer {
	return func(r *web.Request, header http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		control := respond.PollLifetime
		if f.Status < http.StatusInternalServerError {
			control = "private, " + control
		} else {
			header.Set("Retry-After", "1") // unless the failure says more
		}
		header.Set("Cache-Control", control)
		return render(r, header, f)
	}
}

// linkable escapes the characters that end a URL in a Link header.
var linkable = strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20")

// version identifies the answer that a polling client has. Its text is <height>.<tag> or
// <height>.<tag>.<unchanged>, equal in all replicas that read the answer at that block, whatever its coding. The
// tag consists of the answer's digest and a checksum over the chain's name and the rest of the text.
type version struct {
	height    int64 // newest block at which the answer is known to be valid
	digest    digest
	unchanged int64 // polls that timed out at this height: each continues at another URL, so that no shared cache answers it
}

// noVersion is the version of a client without an answer.
const noVersion = "0"

// checksumBytes is the length of the checksum. Digest and checksum each fill whole base64 characters.
const checksumBytes = 3

// text returns the version as clients send it.
func (v version) text(chainID string) string {
	height, unchanged := strconv.FormatInt(v.height, 10), ""
	if v.unchanged > 0 {
		unchanged = "." + strconv.FormatInt(v.unchanged, 10)
	}
	tag := v.digest.appendText(nil)
	sum := sha256.Sum256([]byte(chainID + "\n" + height + "." + string(tag) + unchanged))
	return height + "." + string(base64.RawURLEncoding.AppendEncode(tag, sum[:checksumBytes])) + unchanged
}

// parseVersion parses the text of a version. Its error is for the client.
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
		v.unchanged, err = strconv.ParseInt(parts[2], 10, 64)
	}
	if !ok || err != nil || v.height < 0 || v.unchanged < 0 || v.text(chainID) != id {
		return v, failure.BadInput("%s is %q; expected %s, or the id of an answer of this chain, as its Link names it", web.SinceParameter, web.Short(id), noVersion)
	}
	return v, nil
}

// next returns the version that a client has after an answer of version now, if it had v, and whether that is the answer
// that it had. tip is the newest block.
func (v version) next(now version, tip int64) (next version, unchanged bool) {
	switch {
	case v == version{}:
		return now, false
	case now.height < v.height && v.height <= tip: // a stale answer, because the newest cannot be read
		now = v
	case now.digest != v.digest:
		return now, false
	}
	if now.height == v.height {
		now.unchanged = v.unchanged + 1
	}
	return now, true
}
