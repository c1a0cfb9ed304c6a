package lane

import (
	"net"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/web"
)

// calls is the lane of a listener of gRPC, whose server reads the calls: what is left behind for one is
// told to its handler.
type calls struct{ *Lane }

var _ web.CallLane = calls{}

// ForCalls gives the lane of a listener of gRPC, whose calls are remembered beside the requests of l.
func (l *Lane) ForCalls() web.Lane { return calls{l} }

// Wrap leaves the connection as it is.
func (calls) Wrap(*web.Conn, net.Conn) web.LaneConn { return nil }

// PlaceOf implements [web.Lane]: a call is the place of its answer.
func (calls) PlaceOf(*http.Request, web.LaneConn) web.Place { return nil }

// Answer implements [web.Lane].
func (calls) Answer(*web.Conn, http.ResponseWriter, *http.Request) bool { return false }

// A call is one of gRPC. Calls are used again, so that a hit makes no garbage.
type call struct {
	table   *table // that was in force when it arrived
	lane    *Lane
	stack   *web.Stack
	keyed   bool
	request heads.Request
	key     []byte // once its message is known
	again   bool   // the call came before
	known   *replayer
	replay  replay
}

var arrived = sync.Pool{New: func() any { return new(call) }}

// Arrive implements [web.CallLane].
func (l calls) Arrive(s *web.Stack, client *web.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) web.Call {
	if l.draining.Load() {
		return nil
	}
	c := arrived.Get().(*call) //nolint:forcetypeassert // the pool has no others
	c.lane, c.table, c.stack, c.keyed = l.Lane, l.table.Load(), s, keyed
	c.replay.reset(start, "")
	if !c.request.OfCall(method, metadata) || !c.replay.admitted(s, client, &c.request, keyed) {
		c.Release()
		return nil
	}
	return c
}

// Find implements [web.Call].
func (c *call) Find(message []byte) (f web.Found, ok bool) {
	defer func() { _ = recover() }() // the handler is about to panic, too, and what it says is logged and answered
	c.request.Body = unsafe.String(unsafe.SliceData(message), len(message))
	c.key = c.request.AppendKey(c.key[:0])
	r, ok := c.table.find(c.key).(*replayer)
	switch {
	case !ok:
		c.lane.requests.unknown.Inc()
		c.again = c.lane.bodies.again(c.key)
		return f, false
	case r.of.Keyed != c.keyed || !r.answered(&c.replay):
		c.lane.requests.declined.Inc()
		c.again = true
		return f, false
	}
	c.lane.requests.answered.Inc()
	c.known = r
	n := &c.replay
	n.identify(c.request.Value(heads.RequestID))
	return web.Found{By: r.of.Replayer, Record: &n.rec, Answer: &n.answer, Standings: &n.standings}, true
}

// End implements [web.Call].
func (c *call) End(size int, err error) {
	n := &c.replay
	if n.end.Status, n.end.Size = http.StatusOK, size; err != nil {
		n.end.Status, n.end.Size = n.rec.Fail(err), 0
	}
	c.known.finish(n, &c.request)
}

// Remember implements [web.Place].
func (c *call) Remember(s *web.Stack, r *http.Request, a *web.Replayable) {
	if c.again {
		known := newReplayer(s, r, a)
		known.bytes = 2 * len(c.request.Body)
		c.table.put(string(c.key), known)
	}
}

// Release implements [web.Call].
func (c *call) Release() {
	key := c.key[:0]
	*c = call{}
	c.key = key
	arrived.Put(c)
}
