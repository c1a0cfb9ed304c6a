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

// grpcLane is the lane of a gRPC listener, whose server reads the calls. Package grpc sends the response.
type grpcLane struct{ *Lane }

var _ web.CallLane = grpcLane{}

// ForCalls gives the lane of a listener of gRPC, whose calls are remembered beside the requests of l.
func (l *Lane) ForCalls() web.Lane { return grpcLane{l} }

// Wrap leaves the connection as it is.
func (grpcLane) Wrap(*conn.Conn, net.Conn) conn.LaneConn { return nil }

// PlaceOf implements [web.Lane]: a call is the place of its answer.
func (grpcLane) PlaceOf(*http.Request, conn.LaneConn) record.Place { return nil }

// Serve implements [web.Lane].
func (grpcLane) Serve(*conn.Conn, conn.LaneConn, http.ResponseWriter, *http.Request) bool {
	return false
}

// A grpcCall is a gRPC call. Calls are reused, so that a hit makes no garbage.
type grpcCall struct {
	table   *table // that was in force when it arrived
	lane    *Lane
	keyed   bool
	request heads.Request
	key     []byte // once its message is known
	again   bool   // the call came before
	known   *knownRequest
	replay  replay
}

var arrived = sync.Pool{New: func() any { return new(grpcCall) }}

// Arrive implements [web.CallLane].
func (l grpcLane) Arrive(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) web.Call {
	if l.draining.Load() {
		return nil
	}
	c := arrived.Get().(*grpcCall) //nolint:forcetypeassert // the pool has no others
	c.lane, c.table, c.keyed = l.Lane, l.table.Load(), keyed
	c.replay.reset(start, "")
	if !c.request.OfCall(method, metadata) || !c.replay.admitted(l.stack, client, &c.request, keyed) {
		c.Release()
		return nil
	}
	return c
}

// Find implements [web.Call].
func (c *grpcCall) Find(message []byte) (f web.Found, ok bool) {
	defer func() { _ = recover() }() // the handler is about to panic, too, and what it says is logged and answered
	c.request.Body = unsafe.String(unsafe.SliceData(message), len(message))
	c.key = c.request.AppendKey(c.key[:0])
	r, ok := c.table.find(c.key).(*knownRequest)
	switch {
	case !ok:
		c.lane.requests.unknown.Inc()
		c.again = c.lane.bodies.again(c.key)
		return f, false
	case r.keyed != c.keyed || !r.answered(&c.replay):
		c.lane.requests.declined.Inc()
		c.again = true
		return f, false
	}
	c.lane.requests.answered.Inc()
	c.known = r
	n := &c.replay
	n.identify(c.request.Value(heads.RequestID))
	return web.Found{By: r.by, Record: &n.rec, Answer: &n.answer, Standings: &n.standings}, true
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

// Remember implements [record.Place].
func (c *grpcCall) Remember(r *http.Request, rec *record.Record) {
	if c.again {
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
	arrived.Put(c)
}
