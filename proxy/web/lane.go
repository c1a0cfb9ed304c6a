package web

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// A Lane serves requests from memory in place of their handlers. Package lane implements it; it is optional. This file
// is the whole interface between the lane and the stack.
type Lane interface {
	conn.Lane
	// Use sets the stack whose requests the lane answers. New calls it.
	Use(s *Stack)
	// SlotFor returns the slot for a request on a connection of the lane. It returns nil if the lane cannot store it.
	SlotFor(r *http.Request, on conn.LaneConn) record.LaneSlot
	// Serve is called before a request is handled, and reports whether it has answered it. It can answer requests of
	// HTTP/2. Those of HTTP/1 were read through on, which could not answer them.
	Serve(client *conn.Conn, on conn.LaneConn, w http.ResponseWriter, r *http.Request) (answered bool)
	// Forget drops all requests.
	Forget()
}

// A CallLane is the lane of a gRPC listener, which has a server of its own.
type CallLane interface {
	Lane
	// StartCall starts a call before its message has arrived. keyed says that an API key is required. StartCall returns
	// nil if the lane cannot answer the call, or the client may not make it. The handler must then serve it.
	StartCall(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) Call
}

// A Call is a call that the lane may answer. It must not be used after Release.
type Call interface {
	record.LaneSlot // may be used after Find
	// Find looks up the call by its message, which must not change until Release. If ok is false, nothing was counted and
	// the handler must serve the call.
	Find(message []byte) (hit CallHit, ok bool)
	// End must be called once the response that Find returned has been sent, or could not be.
	End(size int, err error)
	Release()
}

// A CallHit is a response that the lane has for a call.
type CallHit struct {
	Replayer   record.Replayer
	Record     *record.Record
	Response   *respond.Response
	RateLimits *limits.Statuses
}

// A CallerIDFinder finds the id of a JSON-RPC call in a POST body. The response repeats the id, and does not depend on it
// otherwise. ok is false if there is none. The finder must be fast, and may be wrong.
type CallerIDFinder func(body string) (from, to int, ok bool)

// NoLane returns why the fast lane answers no request, or "" if it may.
func (s *Stack) NoLane() string {
	switch {
	case s.o.Lane == nil:
		return "it is switched off"
	case s.o.Tracing != nil:
		return "traces are collected"
	case s.Admission.SharesAddresses():
		return "the limit of addresses is kept in Redis"
	}
	return ""
}

// Forget empties the fast lane. Call it after replacing anything that responses depend on.
func (s *Stack) Forget() {
	if s.o.Lane != nil {
		s.o.Lane.Forget()
	}
}

// laneSlot returns the fast lane's slot for a request, or nil. With tracing, each request goes to its handler.
func (s *Stack) laneSlot(r *http.Request) record.LaneSlot {
	c := conn.Of(r)
	if s.o.Tracing != nil || c == nil {
		return nil
	}
	if lane, ok := c.Lane().(Lane); ok {
		return lane.SlotFor(r, c.LaneConn())
	}
	return nil
}

// StartLaneCall starts a gRPC call in the lane of the client's connection. It returns nil if the handler must serve the
// call.
func (s *Stack) StartLaneCall(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) Call {
	if lane, ok := client.Lane().(CallLane); ok && s.o.Lane != nil && s.o.Tracing == nil {
		return lane.StartCall(client, method, metadata, keyed, start)
	}
	return nil
}
