package lane

import (
	"net"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
)

// A grpcLane is the lane of a gRPC listener. The gRPC server reads the calls, and package grpc sends the responses.
type grpcLane struct{ *Lane }

var _ web.CallLane = grpcLane{}

// ForCalls returns the lane of a gRPC listener, which shares the table of l.
func (l *Lane) ForCalls() web.Lane { return grpcLane{l} }

// Wrap leaves the connection as it is.
func (grpcLane) Wrap(*conn.Conn, net.Conn) conn.LaneConn { return nil }

// SlotFor implements [web.Lane]. A gRPC call is its own slot.
func (grpcLane) SlotFor(*http.Request, conn.LaneConn) record.LaneSlot { return nil }

// Serve implements [web.Lane].
func (grpcLane) Serve(*conn.Conn, conn.LaneConn, http.ResponseWriter, *http.Request) bool {
	return false
}

// A grpcCall is a gRPC call. Calls are pooled, so that a hit allocates nothing.
type grpcCall struct {
	table      *table // in use when the call arrived
	lane       *Lane
	keyed      bool
	request    heads.Request
	key        []byte // set by Find
	seenBefore bool
	known      *knownRequest
	replay     replay
}

var grpcCalls = sync.Pool{New: func() any { return new(grpcCall) }}

// StartCall implements [web.CallLane].
func (l grpcLane) StartCall(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) web.Call {
	if l.draining.Load() {
		return nil
	}
	c := grpcCalls.Get().(*grpcCall) //nolint:forcetypeassert // the pool has no others
	c.lane, c.table, c.keyed = l.Lane, l.table.Load(), keyed
	c.replay.reset(start, "")
	if !c.request.ReadCall(method, metadata) || !c.replay.admit(l.stack, client, &c.request, keyed) {
		c.Release()
		return nil
	}
	return c
}

// Find implements [web.Call].
func (c *grpcCall) Find(message []byte) (hit web.CallHit, ok bool) {
	defer func() { _ = recover() }() // the gRPC handler then panics as well, and reports the panic
	c.request.Body = unsafe.String(unsafe.SliceData(message), len(message))
	c.key = c.request.AppendKey(c.key[:0])
	r, ok := c.table.get(c.key).(*knownRequest)
	switch {
	case !ok:
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
	n := &c.replay
	n.setID(c.request.Value(heads.RequestID))
	return web.CallHit{Replayer: r.replayer, Record: &n.rec, Response: &n.response, RateLimits: &n.rateLimits}, true
}

// End implements [web.Call].
func (c *grpcCall) End(size int, err error) {
	n := &c.replay
	if n.end.Status, n.end.Size = http.StatusOK, size; err != nil {
		n.rec.Err = err
		n.end.Status, n.end.Size = n.rec.Fail().Status, 0
	}
	c.known.finish(n, &c.request)
}

// Put implements [record.LaneSlot].
func (c *grpcCall) Put(r *http.Request, rec *record.Record) {
	if c.seenBefore {
		known := newKnownRequest(c.lane.stack, r, rec)
		known.bytes = 2 * len(c.request.Body)
		c.table.put(string(c.key), known)
	}
}

// Release implements [web.Call].
func (c *grpcCall) Release() {
	key := c.key[:0]
	*c = grpcCall{}
	c.key = key
	grpcCalls.Put(c)
}
