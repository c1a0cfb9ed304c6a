package state

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// An origin asks the nodes for one value.
type origin struct {
	*Values
	Request
	own bool // the interface's own words are wanted, of an error too
}

// Fetch asks a node: by gRPC first, where a value is read beside the consensus. What was answered
// by an error before is asked in the interface's own way first, whose error it needs if there is
// one again.
func (o *origin) Fetch(ctx context.Context, r node.Request, before *cache.Entry) (*node.Answer, error) {
	by := GRPC
	if o.own || before != nil && before.Status != http.StatusOK {
		by = o.by
	}
	a, err := o.Ask(ctx, r, o.Request, by)
	if err == nil && o.own && o.by == RPC && a.Type != "" && a.Reason != node.OK {
		return nil, &upstream.Error{Kind: upstream.Unreachable, Msg: "the RPC of the chain node cannot be reached"} // gRPC's errors are not the RPC's
	}
	return a, err
}

// Entry makes what is cached of a node's answer: the value where there is one, or what was said
// in its place.
func (o *origin) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e, tip := o.reader.NewEntry(a), o.reader.Nodes.Tip()
	if e.Expires = Expiry(a, e.ReadAt, tip, o.reader.Negative()); Finds(o.Method) {
		e.Expires = blocks.IndexedExpiry(a.Reason == node.OK, true, e.ReadAt, tip)
	}
	typ, body := a.Type, a.Body
	if typ == "" {
		typ = web.JSON
		if value, ok := valueOf(a.Body, e.Height); ok {
			typ, body = node.MessageType, value
		}
	}
	source := o.reader.Source(body)
	if a.Reason == node.Other {
		source = 0 // nothing holds beyond its short life
	}
	if blocks.SetContent(e, before, StatusOf(a), typ, body, source) {
		e.Failed = a.Reason == node.Other
	}
	return e, nil
}

// StatusOf is what an answer means as an HTTP status, which is what policies go by: 200 for what
// was found.
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

// Expiry bounds the life of an answer that tells of the state, on top of its policy; zero does
// not. negative is the life of one that says no for another cause than the state.
func Expiry(a *node.Answer, now time.Time, tip node.Tip, negative time.Duration) time.Time {
	switch a.Reason {
	case node.OK, node.Refused: // what the state says
		return time.Time{}
	case node.FutureHeight:
		return now.Add(tip.Interval / 4)
	case node.Other:
		return now.Add(dialect.BrokenLife)
	default:
		return now.Add(negative)
	}
}
