package story

import (
	"bytes"
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// An origin reads the nodes for one row.
type origin struct {
	h     *Handler
	route Route
	good  goodInputs
}

// Ask implements [blocks.Source]. It judges whether the input or the node caused a failure.
func (o *origin) Ask(ctx context.Context, q *blocks.Read, ask node.Request, before *cache.Entry) (*node.Answer, error) {
	a, err := o.h.Reader.Nodes.Fetch(ctx, o.withKey(ask))
	if err != nil {
		return nil, err
	}
	switch now := time.Now(); a.Reason {
	case node.OK, node.NotFound:
		o.good.answered(goodInput{q.Key, now})
	case node.Other:
		a = o.good.judge(q, a, before, now)
	default:
	}
	return a, nil
}

// goodInputs are the last two different inputs that a row answered.
type goodInputs struct {
	mu   sync.Mutex
	last [2]goodInput // the newest first
}

type goodInput struct {
	key string
	at  time.Time
}

func (g *goodInputs) answered(in goodInput) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := g.last[0]; first.key != in.key {
		g.last[1] = first
	}
	g.last[0] = in
}

// lately is how long a row counts as working after a successful read.
const lately = time.Minute

// judge judges what caused a failure with an unknown text. It is the input if the row answered another input
// lately, the node reads something else at that height, and this key has no good answer. The answer is
// node.Rejected then. Otherwise the row is believed to work no longer.
func (g *goodInputs) judge(q *blocks.Read, a *node.Answer, before *cache.Entry, now time.Time) *node.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before != nil && before.Status == http.StatusOK {
		g.last = [2]goodInput{}
	}
	works := func(in goodInput) bool { return in.key != q.Key && now.Sub(in.at) < lately }
	if !a.NodeWorks || !slices.ContainsFunc(g.last[:], works) {
		return a
	}
	rejected := *a
	rejected.Reason, rejected.Status = node.Rejected, node.Rejected.Status()
	return &rejected
}

// Entry implements [blocks.Source]. An unchanged answer is not shaped again.
func (o *origin) Entry(q *blocks.Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	now, status, height := time.Now(), a.Status, a.Height
	if o.h.asSent {
		status = a.NodeStatus
	}
	if a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		height = 0 // nothing was read there
	}
	source, stamp := o.sourceOf(a), o.stampFor(q, before, height)
	if before != nil && source != 0 && before.Source == source && before.Status == status && stamp.keeps && (!o.h.asSent || bytes.Equal(before.Body, a.Body)) {
		return before.Confirm(height, now), nil
	}
	content, err := o.content(a, status, source, stamp)
	if err != nil {
		return nil, err
	}
	content.Failed = a.Reason == node.Other
	return &cache.Entry{Content: content, Height: height, ReadAt: now, Expires: blocks.Expiry(a, now, o.h.Reader.Nodes.Tip(), o.h.Reader.Negative())}, nil
}

// sourceOf returns the Source of the content for an answer.
func (o *origin) sourceOf(a *node.Answer) uint64 {
	switch {
	case !blocks.Lasts(a):
		return 0
	case o.h.asSent:
		return cache.Lasting
	default:
		return maphash.Bytes(o.h.seed, a.Body)
	}
}

// content shapes a node's answer, and adds the height to its next page key.
func (o *origin) content(a *node.Answer, status int, source uint64, stamp stamp) (*cache.Content, error) {
	if o.h.asSent {
		return cache.NewContentAfter(stamp.before, status, a.Type, "", a.Body, source), nil
	}
	if status != http.StatusOK {
		return cache.NewContent(status, respond.JSON, "", ErrorEnvelope(status, refusal(stamp.q, a)), source), nil
	}
	shaped, err := documented.Shape(a.Body, o.route.Msg)
	if err != nil {
		return nil, &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node's answer cannot be understood", Err: err}
	}
	return stamp.content(&shaped, source), nil
}

// refusal names the missing item, followed by the text of the node.
func refusal(q *blocks.Read, a *node.Answer) string {
	said := cmp.Or(a.Text, http.StatusText(a.Status))
	if a.Reason == node.NotFound {
		return "nothing found at " + string(dialect.AppendPath(nil, q.Ask.Path)) + ": " + said
	}
	return said
}
