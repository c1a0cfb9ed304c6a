package lane

import (
	"net"
	"net/http"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
)

// An rpcLane is the lane of the RPC listener. It answers only POSTs whose body contains the caller's id.
type rpcLane struct {
	*Lane
	findID web.CallerIDFinder
}

// ForRPC returns the lane of another listener, which shares the table of l. It answers only POSTs in whose body find
// finds the caller's id. The id is not part of the key.
func (l *Lane) ForRPC(find web.CallerIDFinder) web.Lane { return rpcLane{l, find} }

// Wrap implements [web.Lane].
func (s rpcLane) Wrap(client *conn.Conn, below net.Conn) conn.LaneConn {
	c := s.NewConn(below)
	c.client, c.findID = client, s.findID
	return c
}

// SlotFor implements [web.Lane]. Over HTTP/2 the lane answers no POSTs.
func (s rpcLane) SlotFor(r *http.Request, on conn.LaneConn) record.LaneSlot {
	if r.ProtoMajor > 1 {
		return nil
	}
	return s.Lane.SlotFor(r, on)
}

// Serve implements [web.Lane].
func (s rpcLane) Serve(client *conn.Conn, on conn.LaneConn, w http.ResponseWriter, r *http.Request) bool {
	return r.ProtoMajor < 2 && s.Lane.Serve(client, on, w, r)
}

// excludeCallerID removes the caller's id from the request's key. It returns false if the lane cannot serve the request.
func (c *Conn) excludeCallerID() bool {
	if c.request.Method != http.MethodPost {
		return false
	}
	from, to, ok := c.findID(c.request.Body)
	if ok = ok && from < to; ok {
		c.request.SetCallerID(from, to)
	}
	return ok
}
