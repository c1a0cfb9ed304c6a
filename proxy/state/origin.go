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

// A stateRead reads one value from the nodes.
type stateRead struct {
	*Values
	Request
	verbatim bool // read over the API's own transport, whose error texts it needs
}

// Fetch reads a node: by gRPC if it offers that, because a value is read there without the lock of the consensus. If
// the previous answer was an error, it uses the interface's own transport first, whose error text the interface needs.
func (o *stateRead) Fetch(ctx context.Context, r node.Request, before *cache.Entry) (*node.Answer, error) {
	via := GRPC
	if o.verbatim || before != nil && before.Status != http.StatusOK {
		via = o.transport
	}
	a, err := o.ReadNode(ctx, r, o.Request, via)
	if err == nil && o.verbatim && o.transport == RPC && a.Type != "" && a.Reason != node.OK {
		return nil, &upstream.Error{Kind: upstream.Unreachable, Msg: "the RPC of the chain node cannot be reached"} // gRPC's errors differ from the RPC's
	}
	return a, err
}

// Entry returns the entry for a node's answer: the value, or the node's error.
func (o *stateRead) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e, tip := o.reader.NewEntry(a), o.reader.Nodes.Tip()
	if e.Expires = blocks.Expiry(a, e.ReadAt, tip, o.reader.Negative()); a.Reason != node.Other && o.o.IsFixed(o.Method, o.Message) {
		e.Expires = blocks.IndexedExpiry(a.Reason == node.OK, true, e.ReadAt, tip)
	}
	typ, body := a.Type, a.Body
	if typ == "" {
		typ = respond.JSON
		if value, ok := valueOf(a.Body, e.Height); ok {
			typ, body = node.MessageType, value
		}
	}
	if blocks.SetContent(e, before, StatusOf(a), typ, body, a.Reason != node.Other && !a.Unkept) {
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
