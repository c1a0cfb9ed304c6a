package state

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An origin asks the nodes for one value.
type origin struct {
	*Values
	method string
	data   string // of the message, in hexadecimal
}

// Fetch asks a node.
func (o *origin) Fetch(ctx context.Context, r node.Request, _ *cache.Entry) (*node.Answer, error) {
	r.Call = &node.Call{Method: "abci_query", Params: o.params}
	return o.reader.Nodes.Fetch(ctx, r)
}

// params are those of abci_query.
func (o *origin) params(height int64) json.RawMessage {
	p := fmt.Appendf(nil, `{"path":"%s"`, o.method)
	if o.data != "" {
		p = fmt.Appendf(p, `,"data":"%s"`, o.data)
	}
	if height > 0 {
		p = fmt.Appendf(p, `,"height":"%d"`, height)
	}
	return append(p, '}')
}

// Entry makes what is cached of a node's answer: the value where there is one, or the RPC's
// member.
func (o *origin) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	now, tip := time.Now(), o.reader.Nodes.Tip()
	e := &cache.Entry{Height: a.Height, ReadAt: now, Expires: Expiry(a, now, tip, o.reader.Negative())}
	if e.Height == 0 || a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		e.Height = tip.Height // when it was so
	}
	status, typ, body := statusOf(a), web.JSON, a.Body
	if value, ok := valueOf(a.Body, e.Height); ok {
		typ, body = MessageType, value
	}
	source := maphash.Bytes(o.seed, body)
	if before != nil && before.Source == source && before.Status == status && before.Type == typ {
		e.Content = before.Content
		return e, nil
	}
	e.Content = cache.NewContent(status, typ, "", body, source)
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
