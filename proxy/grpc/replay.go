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
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/node"
)

// statusKey is the metadata with the source of an answer.
const statusKey = "cache-status"

// replayer answers a call for a value of the state again, in the fast lane.
type replayer struct {
	record.Replayer // the reader's
	values          *state.Values
	q               *blocks.Read
	last            atomic.Pointer[header]
}

// header is the header of the last answer, which the next answer can usually reuse.
type header struct {
	height int64
	status string
	md     metadata.MD // immutable
}

// laneMayServe reports whether the lane may serve an entry: a message that is copied for every client, without a
// reservation.
func laneMayServe(e *cache.Entry) bool {
	return record.LaneMayServe(e) && e.Type == node.MessageType && len(e.Body) <= conn.MaxUncounted
}

func (r *replayer) header(hit *lane.CallHit) metadata.MD {
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

// answerFromLane answers a call from the fast lane, and reports whether it has done so. If it has read the message, k has
// it.
func (k *call) answerFromLane(c *callContext) (done bool) {
	if !k.methodOf(k.name).inLane {
		return false
	}
	k.laneCall, k.sampling = lane.StartCall(c.on.conn, k.name, c.metadata, k.reader.Keyed(), k.start)
	if k.laneCall == nil {
		return false
	}
	g := timeoutAt(k.reader.Stack.Deadline(k.start), k.receiver.from)
	var err error
	k.message, _, err = k.receiver.next(nil)
	if k.receiveErr = g.release(err); k.receiveErr != nil || k.message == nil {
		return false
	}
	hit, ok := k.laneCall.Find(k.message)
	if ok {
		k.laneCall.End(hit.Replayer.(*replayer).send(&hit, k)) //nolint:forcetypeassert // value registers no others
	}
	return ok
}

func (r *replayer) send(hit *lane.CallHit, k *call) (size int, err error) {
	_ = k.stream.SendHeader(r.header(hit)) // fails only if the client has disconnected
	k.sent.Bytes = hit.Response.Entry.Body
	k.sent.To.(*conn.CallStream).Sending(k.sent.Bytes) //nolint:forcetypeassert // the lane serves only connections of our listener
	if err := k.stream.SendMsg(&k.sent); err != nil {
		return 0, context.Canceled // the client has disconnected
	}
	return len(k.sent.Bytes), nil
}
