package grpc

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// statusKey is the metadata with the source of an answer.
const statusKey = "cache-status"

// replayer answers a call for a value of the state again, in the fast lane.
type replayer struct {
	record.Replayer // the reader's
	values          *state.Values
	q               *blocks.Query
	last            atomic.Pointer[header]
}

// header is the header of the last answer, which the next answer can usually reuse.
type header struct {
	height int64
	status string
	md     metadata.MD // immutable
}

// registerWithLane registers the call with the fast lane, which then answers equal calls from memory.
func (k *call) registerWithLane(q *blocks.Query) {
	if k.rec.Repeatable() {
		k.rec.Replayer = &replayer{Replayer: k.reader.Replayer(q, isRepeatable), values: k.values, q: q}
	}
}

// isRepeatable reports whether the lane may serve an entry: a message that is copied for every client.
func isRepeatable(e *cache.Entry) bool {
	return record.Repeats(e) && e.Type == node.MessageType && len(e.Body) <= maxUnreserved
}

// header returns the header of an answer.
func (r *replayer) header(hit *web.CallHit) metadata.MD {
	height := r.values.Height(r.q, &blocks.Result{Result: hit.Response.Result, Tip: node.Tip{Height: hit.Record.Tip}})
	var scratch [96]byte
	status := respond.AppendCacheStatus(scratch[:0], hit.Response)
	last := r.last.Load()
	if last == nil || last.height != height || last.status != string(status) {
		last = &header{height: height, status: string(status)}
		last.md = metadata.MD{heightKey: {strconv.FormatInt(height, 10)}, statusKey: {last.status}}
		r.last.Store(last)
	}
	md := last.md
	for i := range hit.RateLimits {
		if s := &hit.RateLimits[i]; s.Limited() {
			md = metadata.Join(md, metadata.MD{
				strings.ToLower(limits.StatusHeader): {string(s.AppendText(nil))},
				strings.ToLower(limits.PolicyHeader): {string(s.AppendPolicy(nil))},
			})
		}
	}
	return md
}

// answerFromLane answers a call from the fast lane. If that is not possible, k has the message.
func (k *call) answerFromLane(c *callContext) (done bool) {
	if !(k.o.State.ReadsState(k.name) && k.isUnary(k.name)) && !k.o.State.Rows[k.name].Class.Fixed() {
		return false
	}
	k.laneCall = k.reader.StartLaneCall(c.on.conn, k.name, c.metadata, k.start)
	if k.laneCall == nil {
		return false
	}
	g := timeoutAt(k.reader.Stack.Deadline(k.start), k.receiver.from)
	isSmall, err := k.receiver.begin()
	if isSmall {
		k.message, err = k.receiver.readSmall()
	}
	if k.failure = g.release(err); k.failure != nil || !isSmall {
		return false
	}
	hit, ok := k.laneCall.Find(k.message)
	if ok {
		k.laneCall.End(hit.Replayer.(*replayer).send(&hit, k)) //nolint:forcetypeassert // registerWithLane registers nothing else
	}
	return ok
}

// send sends an answer.
func (r *replayer) send(hit *web.CallHit, k *call) (size int, err error) {
	_ = k.stream.SendHeader(r.header(hit)) // fails only when the client has left
	k.sent.Bytes = hit.Response.Entry.Body
	k.sent.To.(*conn.CallStream).Sending(k.sent.Bytes) //nolint:forcetypeassert // the lane serves only connections of our listener
	if err := k.stream.SendMsg(&k.sent); err != nil {
		return 0, context.Canceled // the client has left
	}
	return len(k.sent.Bytes), nil
}
