package web

import (
	"net/http"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/session"
)

// A Lane serves requests from memory in place of their handlers. Package lane implements it; it is optional. This file
// is the whole interface between the lane and the stack.
type Lane interface {
	conn.Lane
	// Use sets the stack whose requests the lane answers. New calls it.
	Use(s *Stack)
	// SlotFor returns the slot for a request on a connection of the lane. It returns nil if the lane cannot store it.
	SlotFor(client *conn.Conn, r *http.Request) record.LaneSlot
	// Serve is called before a request is handled, and reports whether it has answered it. It can answer requests of
	// HTTP/2. Those of HTTP/1 were read through the connection's LaneConn, which could not answer them. If the lane has
	// looked the request up, it has decided whether the request is traced.
	Serve(client *conn.Conn, w http.ResponseWriter, r *http.Request) (answered bool, sampling record.Sampling)
	// Forget drops all requests.
	Forget()
}

// NoLane returns why the fast lane answers no request, or "" if it may.
func (s *Stack) NoLane() string {
	switch {
	case s.o.Lane == nil:
		return "it is switched off"
	case s.Admission.AsksRedis(s.Admission.Limits.Load().Address):
		return "the limit of addresses is below one request per second, and kept in Redis"
	}
	return ""
}

// Forget empties the fast lane. Call it after replacing anything that responses depend on.
func (s *Stack) Forget() {
	if s.o.Lane != nil {
		s.o.Lane.Forget()
	}
}

// laneSlot returns the fast lane's slot for a request, or nil. The lane's key of a request would lack the parameters that were
// removed.
func (s *Stack) laneSlot(r *Request) record.LaneSlot {
	if r.lane == nil || r.Options != nil || s.feignsScheme(r.Request) {
		return nil
	}
	return r.lane.SlotFor(r.client, r.Request)
}

// feignsScheme reports whether a client names a scheme as only trusted proxies may. Theirs must not get its response.
func (s *Stack) feignsScheme(r *http.Request) bool {
	return r.Header[session.ForwardedProto] != nil && len(s.Admission.Limits.Load().TrustedProxies) > 0 && !s.IsFromProxy(r)
}
