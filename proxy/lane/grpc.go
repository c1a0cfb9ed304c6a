package lane

import (
	"net"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// A callLane is the lane of a gRPC listener. The gRPC server reads the calls, and package grpc sends the responses.
type callLane struct{ lane *Lane }

// ForCalls returns the lane of a gRPC listener, which shares the table of l.
func (l *Lane) ForCalls() conn.Lane { return callLane{l} }

// Wrap leaves the connection as it is.
func (callLane) Wrap(*conn.Conn, net.Conn) conn.LaneConn { return nil }

// A Call is a gRPC call that the lane may serve. It must not be used after Release. Calls are pooled, so that a hit
// allocates nothing.
type Call struct {
	table      *table // in use when the call arrived
	lane       *Lane
	keyed      bool
	request    heads.Request
	key        []byte // set by Find
	seenBefore bool
	known      *knownRequest
	replay     replay
}

// A CallHit is a response that the lane has for a call.
type CallHit struct {
	Replayer   record.Replayer
	Record     *record.Record
	Response   *respond.Response
	RateLimits *limits.Statuses
}

var calls = sync.Pool{New: func() any { return new(Call) }}

// StartCall starts a call in the lane of its connection, before its message has arrived. keyed says that an API key is
// required. StartCall returns nil if the lane cannot serve the call, or the client may not make it. The handler must then
// serve it. sampling is the decision of the lane whether the call is traced.
func StartCall(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) (c *Call, sampling record.Sampling) {
	l, ok := client.Lane().(callLane)
	if !ok || l.lane.draining.Load() {
		return nil, record.Undecided
	}
	c = calls.Get().(*Call) //nolint:forcetypeassert // the pool has no others
	c.lane, c.table, c.keyed = l.lane, l.lane.table.Load(), keyed
	c.replay.reset(start, "")
	admitted := c.request.ReadCall(method, metadata) && c.replay.admit(c.lane.stack, client, &c.request, keyed)
	if sampling = c.replay.rec.Sampling; !admitted {
		c.Release()
		return nil, sampling
	}
	return c, sampling
}

// Find looks up the call by its message, which must not change until Release. If ok is false, nothing was counted against
// limits, and the handler must serve the call.
func (c *Call) Find(message []byte) (hit CallHit, ok bool) {
	defer func() { _ = recover() }() // the gRPC handler then panics as well, and reports the panic
	c.request.Body = unsafe.String(unsafe.SliceData(message), len(message))
	c.key = c.request.AppendKey(c.key[:0])
	r, isKnown := c.table.get(c.key).(*knownRequest)
	switch {
	case !isKnown:
		c.lane.requests.unknown.Inc()
		c.seenBefore = c.lane.recent.seenBefore(c.key)
		return hit, false
	case r.keyed != c.keyed || !r.loadResponse(&c.replay):
		c.lane.requests.declined.Inc()
		c.seenBefore = true
		return hit, false
	}
	c.lane.requests.answered.Inc()
	c.known = r
	p := &c.replay
	p.setID(c.request.Value(heads.RequestID))
	return CallHit{Replayer: r.replayer, Record: &p.rec, Response: &p.response, RateLimits: &p.rateLimits}, true
}

// End must be called once the response that Find returned has been sent, or could not be.
func (c *Call) End(size int, err error) {
	p := &c.replay
	if p.end.Status, p.end.Size = http.StatusOK, size; err != nil {
		p.rec.Err = err
		p.end.Status, p.end.Size = p.rec.Fail().Status, 0
	}
	c.known.finish(p, &c.request)
}

// Put implements [record.LaneSlot]. It may be called after Find.
func (c *Call) Put(r *http.Request, head record.Head, rec *record.Record) {
	if c.seenBefore {
		known := newKnownRequest(c.lane.stack, r, head, rec)
		known.bytes = 2 * len(c.request.Body)
		c.table.put(string(c.key), known)
	}
}

// Release returns the call to the pool.
func (c *Call) Release() {
	key := c.key[:0]
	*c = Call{}
	c.key = key
	calls.Put(c)
}
