package cosmos

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// The lives of what says nothing about state.
const (
	brokenLife  = time.Second           // of an answer by which the node says that it failed
	missingLife = 20 * time.Millisecond // of "not found" right after a block: the node's index of it lags
)

// origin asks the node, which is what a miss comes to.
func (ep *endpoint) origin(q inquiry, from *http.Request, rec *web.Record) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		r := node.Request{Path: q.path, Query: q.query, Height: q.pinned, Cost: ep.costOf(q), Unpinned: !ep.row.Class.pinned(), Background: cache.InBackground(ctx), Ahead: cache.Ahead(ctx)}
		r.Client = ep.stack.Client(from, rec)
		if r.Height == 0 {
			r.Height = node.AtTip
		}
		a, err := ep.fetch(ctx, r)
		if err = chain.Silence(a, err, q.pinned == 0, prev); err != nil {
			return nil, err
		}
		return ep.entry(a, prev), nil
	}
}

// fetch asks the node. One that has just started reads no latest block until the next one comes, but what is
// asked of its latest it can be asked at the tip.
func (h *Handler) fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	a, err := h.o.Chain.Nodes.Fetch(ctx, r)
	if errors.Is(err, node.ErrNoLatest) && h.o.Chain.Nodes.Tip().Known {
		r.Unpinned = false
		a, err = h.o.Chain.Nodes.Fetch(ctx, r)
	}
	if err == nil && a.Height > 0 && (a.Reason == node.OK || a.Codec != "") {
		h.noteCodec(a.Codec)
	}
	return a, err
}

// largePage is the page size from which on a page weighs on the node as much as a read of
// the whole set.
const largePage = 1000

// costOf is what a question costs the node.
func (ep *endpoint) costOf(q inquiry) node.Cost {
	if q.large() {
		return node.Scan
	}
	return ep.row.Cost
}

// entry makes what is cached of a node's answer.
func (ep *endpoint) entry(a *node.Answer, prev *cache.Entry) *cache.Entry {
	now, status, height := time.Now(), a.NodeStatus, a.Height
	source := maphash.Bytes(ep.seed, a.Body)
	expires := ep.expiry(a, now)
	if a.Reason == node.Pruned || a.Reason == node.FutureHeight || height == 0 {
		height = ep.o.Chain.Nodes.Tip().Height // when it was so
	}
	if prev != nil && prev.Source == source && prev.Status == status {
		return &cache.Entry{Content: prev.Content, Height: height, ReadAt: now, Expires: expires}
	}
	return &cache.Entry{Content: cache.NewContent(status, a.Type, "", a.Body, source), Height: height, ReadAt: now, Expires: expires}
}

// expiry bounds the life of an answer, on top of its policy; zero does not. The state's own errors live as
// long as other answers of the state: they are what holds at their height.
func (ep *endpoint) expiry(a *node.Answer, now time.Time) time.Time {
	tip := ep.o.Chain.Nodes.Tip()
	switch {
	case a.Reason == node.OK:
		return time.Time{}
	case ep.row.Class == Found || ep.row.Class == Block:
		return now.Add(max(missingLife, min(now.Sub(tip.Seen), tip.Interval)))
	case a.Reason == node.Refused && a.Codec == "": // the node does not say that it is the state's
		return now.Add(tip.Interval)
	case a.Reason == node.Refused:
		return time.Time{}
	case a.Reason == node.FutureHeight:
		return now.Add(tip.Interval / 4)
	case a.Reason == node.Other, a.NodeStatus == http.StatusGatewayTimeout:
		return now.Add(brokenLife)
	default:
		return now.Add(ep.policies.Load().Negative)
	}
}
