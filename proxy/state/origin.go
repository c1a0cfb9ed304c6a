package state

import (
	"context"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
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
	now, tip := time.Now(), o.reader.Nodes.Tip()
	e := &cache.Entry{Height: a.Height, ReadAt: now, Expires: Expiry(a, now, tip, o.reader.Negative())}
	if Finds(o.Method) {
		e.Expires = blocks.IndexedExpiry(a.Reason == node.OK, true, now, tip)
	}
	if e.Height == 0 || a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		e.Height = tip.Height // when it was so
	}
	status, typ, body := statusOf(a), a.Type, a.Body
	if typ == "" {
		typ = web.JSON
		if value, ok := valueOf(a.Body, e.Height); ok {
			typ, body = node.MessageType, value
		}
	}
	source := maphash.Bytes(o.seed, body)
	if before != nil && before.Source == source && before.Status == status && before.Type == typ {
		e.Content = before.Content
		return e, nil
	}
	e.Content = cache.NewContentAfter(before, status, typ, "", body, source)
	return e, nil
}

// statusOf is what an answer means as an HTTP status, which is what policies go by: 200 for what
// was found.
func statusOf(a *node.Answer) int {
	switch a.Reason {
	case node.OK:
		return http.StatusOK
	case node.BadInput:
		return http.StatusBadRequest
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
	default:
		return now.Add(negative)
	}
}
