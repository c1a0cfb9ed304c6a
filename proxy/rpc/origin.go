package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An origin asks the nodes for what one call is about.
type origin struct {
	*asking
	class blocks.Class
	a     arguments // without the height that state is read at
}

// Fetch asks a node.
func (o *origin) Fetch(ctx context.Context, r node.Request, _ *cache.Entry) (*node.Answer, error) {
	r.Call = &node.Call{
		Method: o.m.name, Params: o.params, Target: o.target, Write: o.m.write, Slow: o.m.slow,
		Block: number(o.a.of(o.m, "height")),
	}
	a, err := o.reader.Nodes.Fetch(ctx, r)
	if err == nil && o.m.name == "status" && a.Reason == node.OK {
		a, err = o.readable(ctx, r, a)
	}
	return o.complete(a, err)
}

// params are the parameters that the node is told: of a read at a height, with the height.
func (o *origin) params(height int64) json.RawMessage {
	if o.unread != nil {
		return o.unread
	}
	a := o.a
	if o.class == blocks.Live && height > 0 {
		a = a.with(o.m, "height", json.RawMessage(`"`+strconv.FormatInt(height, 10)+`"`))
	}
	return o.m.object(a)
}

// Entry makes what is cached of a node's answer.
func (o *origin) Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	now, tip := time.Now(), o.reader.Nodes.Tip()
	e := &cache.Entry{Height: a.Height, ReadAt: now, Expires: o.expiry(a, now, tip)}
	if e.Height == 0 || a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		e.Height = tip.Height // when it was so
	}
	status := statusOf(a)
	source := maphash.Bytes(o.seed, a.Body)
	if before != nil && before.Source == source && before.Status == status {
		e.Content = before.Content
		return e, nil
	}
	e.Content = cache.NewContentAfter(before, status, web.JSON, "", a.Body, source)
	return e, nil
}

// statusOf is what an answer means as an HTTP status, which is what policies go by: 200 for what
// was found.
func statusOf(a *node.Answer) int {
	switch {
	case a.Reason == node.OK && !isNothing(a.Body):
		return http.StatusOK
	case a.Reason == node.BadInput:
		return http.StatusBadRequest
	default:
		return http.StatusNotFound
	}
}

// isNothing tells a success that says that there is no such block.
func isNothing(member []byte) bool {
	return bytes.Contains(member[:min(len(member), 200)], []byte(`"block":null`)) || bytes.HasPrefix(member, []byte(`"result":{"header":null`))
}

// expiry bounds the life of an answer, on top of its policy; zero does not.
func (o *origin) expiry(a *node.Answer, now time.Time, tip node.Tip) time.Time {
	if o.class == blocks.Found || o.m.name == "tx_search" || o.m.name == "block_search" {
		return blocks.IndexedExpiry(statusOf(a) == http.StatusOK, o.class == blocks.Found, now, tip)
	}
	return state.Expiry(a, now, tip, o.reader.Negative())
}
