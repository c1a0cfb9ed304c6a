package state

import (
	"context"
	"net/http"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// Ask implements [blocks.Source]. It asks by gRPC if a node offers that, because a value is read there without the lock of the
// consensus. If the previous answer was an error, it uses the API's own transport first, whose error text the API needs.
func (v *Values) Ask(ctx context.Context, _ *blocks.Read, ask node.Request, before *cache.Entry) (*node.Answer, error) {
	via := GRPC
	if before != nil && before.Status != http.StatusOK {
		via = v.transport
	}
	return v.askVia(ctx, ask, via)
}

// askVia asks over one transport first. Only nodes that offer gRPC have two.
func (v *Values) askVia(ctx context.Context, ask node.Request, via Transport) (*node.Answer, error) {
	if ask.Invoke == nil {
		return v.reader.Nodes.Fetch(ctx, ask)
	}
	return v.ReadNode(ctx, ask, Request{ask.Invoke.Method, ask.Invoke.Message}, via)
}

// verbatim is a source of values that asks over the API's own transport, because the API needs the texts of its errors.
type verbatim struct{ *Values }

// Ask implements [blocks.Source].
func (v verbatim) Ask(ctx context.Context, _ *blocks.Read, ask node.Request, _ *cache.Entry) (*node.Answer, error) {
	a, err := v.askVia(ctx, ask, v.transport)
	if err == nil && v.transport == RPC && a.Type != "" && a.Reason != node.OK {
		return nil, &upstream.Error{Kind: upstream.Unreachable, Msg: "the RPC of the chain node cannot be reached"} // gRPC's errors differ from the RPC's
	}
	return a, err
}

// Entry implements [blocks.Source]: the value, or the node's error.
func (v *Values) Entry(q *blocks.Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e, tip, status := v.reader.NewEntry(a), v.reader.Nodes.Tip(), StatusOf(a)
	if q.Kind == v.found && a.Reason == node.OK && len(a.Body) == 0 { // no fixed value is empty
		status = http.StatusNotFound
	}
	if e.Expires = blocks.Expiry(a, e.ReadAt, tip, v.reader.Negative()); a.Reason != node.Other && q.Kind == v.found {
		e.Expires = blocks.IndexedExpiry(status == http.StatusOK, true, e.ReadAt, tip)
	}
	typ, body := a.Type, a.Body
	if typ == "" {
		typ = respond.JSON
		if value, ok := valueOf(a.Body, e.Height); ok {
			typ, body = node.MessageType, value
		}
	}
	if blocks.SetContent(e, before, status, typ, body, a.Reason != node.Other && !a.Unkept) {
		e.Failed = a.Reason == node.Other
	}
	return e, nil
}

// StatusOf returns the HTTP status that corresponds to an answer, for freshness policies.
func StatusOf(a *node.Answer) int {
	switch a.Reason {
	case node.OK:
		return http.StatusOK
	case node.BadInput:
		return http.StatusBadRequest
	case node.Other:
		return http.StatusBadGateway
	default:
		return http.StatusNotFound
	}
}
