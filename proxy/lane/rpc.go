package lane

import (
	"net"
	"net/http"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
)

// A CallerIDFinder finds the id of a JSON-RPC call in a POST body. The response repeats the id, and does not depend on it
// otherwise. ok is false if there is none. The finder must be fast. It may find other text, because a handler is registered
// only for a body in which it found the id.
type CallerIDFinder func(body string) (from, to int, ok bool)

// An rpcLane is the lane of the RPC listener. It answers only POSTs whose body contains the caller's id.
type rpcLane struct {
	*Lane
	findID CallerIDFinder
}

// ForRPC returns the lane of another listener, which shares the table of l. It answers only POSTs in whose body find
// finds the caller's id. The id is not part of the key.
func (l *Lane) ForRPC(find CallerIDFinder) web.Lane { return rpcLane{l, find} }

func (s rpcLane) Wrap(client *conn.Conn, below net.Conn) conn.LaneConn {
	c := s.NewConn(below)
	c.client, c.findID = client, s.findID
	return c
}

// SlotFor implements [web.Lane]. Over HTTP/2 the lane answers no POSTs.
func (s rpcLane) SlotFor(client *conn.Conn, r *http.Request) record.LaneSlot {
	if r.ProtoMajor > 1 {
		return nil
	}
	return s.Lane.SlotFor(client, r)
}

func (s rpcLane) Serve(client *conn.Conn, w http.ResponseWriter, r *http.Request) (answered bool, sampling record.Sampling) {
	if r.ProtoMajor > 1 {
		return false, record.Undecided
	}
	return s.Lane.Serve(client, w, r)
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
