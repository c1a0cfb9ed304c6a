package rpc

import (
	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Own finds what of a body is its caller's own: the id.
var Own web.Own = jsonrpc.Own

// A replayer answers a call by POST again, under the id of each.
type replayer struct {
	record.Replayer // the reader's
	q               *blocks.Query
	made            *state.Values // that the member is made of; nil: it is the entry's
}

// repeat has the only call of a body answered again that is like it but for the id, where the lane can be
// sure of that. What a call asks for must not depend on the tip.
func (k *asking) repeat(rec *record.Record, body []byte, one *answered) {
	if !rec.Repeatable() || one.answer == nil || len(one.member) > longestRepeated || !jsonrpc.IsOwn(body) {
		return
	}
	r := &replayer{q: one.query}
	if k.made {
		r.made = k.values
	}
	r.Replayer = k.reader.Replayer(one.query, r.repeats)
	rec.Replayer = r
}

// repeats tells whether an entry is given in the lane.
func (r *replayer) repeats(e *cache.Entry) bool {
	return record.Repeats(e) && len(e.Body) <= longestRepeated && (r.made == nil || r.made.Speaks(e))
}

// longestRepeated is the longest member that is copied in the lane, beside an id of any length that comes there.
const longestRepeated = conn.Uncounted / 2

// Replay implements [record.Replayer].
func (r *replayer) Replay(rec *record.Record, told *respond.Response) bool {
	if !r.Replayer.Replay(rec, told) {
		return false
	}
	b := jsonrpc.Begin(rec.Room, rec.Own)
	if told.Entry.Type != node.MessageType {
		b = append(b, told.Entry.Body...)
	} else {
		b = state.AppendValue(b, told.Entry.Body, r.made.Height(r.q, &blocks.Result{Result: told.Result, Tip: node.Tip{Height: rec.Tip}}))
	}
	b = append(b, '}')
	told.Body, told.Control = b, notKept
	return true
}
