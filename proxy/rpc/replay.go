package rpc

import (
	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/node"
)

// replayer answers a POST call again with another id.
type replayer struct {
	record.Replayer // the reader's
	q               *blocks.Read
	fromState       *state.Values // composes the member; nil if the member is the entry's body
}

// remember registers the only call of a body with the fast lane, which then answers bodies that differ only in the
// id. The answer must not depend on anything but the id and the tip.
func (k *pendingCall) remember(rec *record.Record, body []byte) {
	if rec.LaneSlot == nil || k.answer == nil || len(k.member) > maxRepeated || !jsonrpc.FindsID(body) {
		return
	}
	r := &replayer{q: k.query}
	if k.call.fromState {
		r.fromState = k.call.d.values
	}
	r.Replayer = k.call.d.reader.Replayer(k.query, r.laneMayServe)
	rec.Replayer = r
}

// laneMayServe reports whether the lane may serve an entry.
func (r *replayer) laneMayServe(e *cache.Entry) bool {
	return record.LaneMayServe(e) && len(e.Body) <= maxRepeated && (r.fromState == nil || r.fromState.CanServe(e))
}

// maxRepeated is the longest member that the lane copies, in addition to an id of any length.
const maxRepeated = conn.MaxUncounted / 2

// Replay implements [record.Replayer].
func (r *replayer) Replay(rec *record.Record, res *respond.Response) bool {
	if !r.Replayer.Replay(rec, res) {
		return false
	}
	b := jsonrpc.Begin(rec.Buffer, rec.CallerID)
	if res.Entry.Type != node.MessageType {
		b = append(b, res.Entry.Body...)
	} else {
		b = state.AppendValue(b, res.Entry.Body, r.fromState.Height(r.q, &blocks.Result{Result: res.Result, Tip: node.Tip{Height: rec.Tip}}))
	}
	b = append(b, '}')
	res.Body, res.Control = b, noStore
	return true
}
