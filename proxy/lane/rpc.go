package lane

import (
	"net"
	"net/http"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
)

// An rpcLane is the lane of the connections of another listener. It answers only POSTs, a part of whose bodies is the
// caller's own.
type rpcLane struct {
	*Lane
	own web.Own
}

// For gives the lane of another listener, whose requests are remembered beside those of l: POSTs, without
// what own finds in them. A Replayer is left by a handler for such bodies alone as have the same answer
// with another part in its place.
func (l *Lane) For(own web.Own) web.Lane { return rpcLane{l, own} }

// Wrap implements [web.Lane].
func (s rpcLane) Wrap(of *conn.Conn, below net.Conn) conn.LaneConn {
	c := s.NewConn(below)
	c.client, c.own = of, s.own
	return c
}

// PlaceOf implements [web.Lane]. Over HTTP/2 no POST is answered.
func (s rpcLane) PlaceOf(r *http.Request, on conn.LaneConn) record.Place {
	if r.ProtoMajor > 1 {
		return nil
	}
	return s.Lane.PlaceOf(r, on)
}

// Serve implements [web.Lane].
func (s rpcLane) Serve(client *conn.Conn, on conn.LaneConn, w http.ResponseWriter, r *http.Request) bool {
	return r.ProtoMajor < 2 && s.Lane.Serve(client, on, w, r)
}

// cutOwn takes what is the caller's own out of the key of the request. It is not ok where the request is
// none of those that are remembered.
func (c *Conn) cutOwn() bool {
	if c.request.Method != http.MethodPost {
		return false
	}
	from, to, ok := c.own(c.request.Body)
	if ok = ok && from < to; ok {
		c.request.SetOwn(from, to)
	}
	return ok
}
