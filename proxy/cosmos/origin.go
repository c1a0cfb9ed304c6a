package cosmos

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/node"
)

// missingLife is the shortest lifetime of "not found": right after a block the node's index lags. It grows up to the block
// time.
const missingLife = 20 * time.Millisecond

// Ask implements [blocks.Source]. A node that has just started has no latest state until the next block, so a read of the latest
// is repeated at the tip.
func (ep *endpoint) Ask(ctx context.Context, _ *blocks.Read, ask node.Request, _ *cache.Entry) (*node.Answer, error) {
	ask.IsMethod = ep.Endpoint.Row.Method != ""
	a, err := ep.h.Reader.Nodes.Fetch(ctx, ask)
	if errors.Is(err, node.ErrNoLatest) && ep.h.Reader.Nodes.Tip().Known {
		ask.Unpinned = false
		a, err = ep.h.Reader.Nodes.Fetch(ctx, ask)
	}
	if ep.Endpoint.Row.Query == dialect.Anything && errors.Is(err, node.ErrForeign) { // clients choose the path, and a node may have any page there
		err = failure.OfUnknown(err)
	}
	if err == nil && a.Height > 0 && (a.Reason == node.OK || a.Codec != "") {
		ep.h.usesGRPC.Store(a.Codec != "")
	}
	return a, err
}

// Entry implements [blocks.Source].
func (ep *endpoint) Entry(_ *blocks.Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e := ep.h.Reader.NewEntry(a)
	e.Expires = ep.expiry(a, e.ReadAt)
	if ep.Endpoint.Row.Class == blocks.Never { // sent without a validator
		e.Content = &cache.Content{Status: a.NodeStatus, Type: a.Type, Body: a.Body, Failed: failed(a)}
	} else if blocks.SetContent(e, before, a.NodeStatus, a.Type, a.Body, blocks.Lasts(a)) {
		e.Failed = failed(a)
	}
	return e, nil
}

// failed reports whether an answer is a failure of the node and not caused by the input.
func failed(a *node.Answer) bool {
	switch a.NodeStatus {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return !a.Unkept && !a.Brief
	}
	return a.Reason == node.Other || a.Reason == node.Ambiguous && a.NodeStatus >= http.StatusInternalServerError
}

// expiry returns when an answer expires in addition to its policy; zero for no such time. Errors that depend on state have
// none, because they are correct at their height.
func (ep *endpoint) expiry(a *node.Answer, now time.Time) time.Time {
	tip := ep.h.Reader.Nodes.Tip()
	switch {
	case ep.Endpoint.Row.Name == "tx_search" && a.Reason == node.OK:
		return blocks.IndexedExpiry(true, false, now, tip)
	case a.Reason != node.OK && ep.Endpoint.Row.Class.Fixed():
		return now.Add(max(missingLife, min(now.Sub(tip.Since), tip.Interval)))
	case a.Reason == node.Refused && a.Codec == "": // the node does not say that it is the state's
		return now.Add(tip.Interval)
	case a.NodeStatus == http.StatusGatewayTimeout:
		return now.Add(blocks.BrokenLife)
	}
	return blocks.Expiry(a, now, tip, ep.h.Reader.Negative())
}
