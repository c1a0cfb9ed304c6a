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
	// PlaceOf returns the place of the response to a request on a connection of the lane, nil for none.
	PlaceOf(r *http.Request, on conn.LaneConn) record.Place
	// Serve is called before a request is handled. It answers an HTTP/2 request if it can, and returns false otherwise. A
	// request of HTTP/1 was read through on, which could not answer it.
	Serve(client *conn.Conn, on conn.LaneConn, w http.ResponseWriter, r *http.Request) (answered bool)
	// Forget drops all requests.
	Forget()
}

// A CallLane is the lane of a gRPC listener, which has a server of its own.
type CallLane interface {
	Lane
	// Arrive takes up a call by its metadata, before its message has arrived. keyed says that it needs a key. It returns
	// nil if the client may not make the call, or the lane does not know it. The handler then judges it.
	Arrive(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) Call
}

// A Call is a call that the lane may answer. It must not be used after Release.
type Call interface {
	record.Place // of its response, once its message is known
	// Find looks the call up by its message, which must not change until Release. If it is not found, nothing is counted
	// and the handler answers.
	Find(message []byte) (f Found, ok bool)
	// End must be called once the response that Find returned has been sent, or could not be.
	End(size int, err error)
	Release()
}

// Found is what the lane has found for a call.
type Found struct {
	By        record.Replayer
	Record    *record.Record
	Answer    *respond.Response
	Standings *limits.Standings
}

// Own finds the part of a POST body that is the caller's own, such as the id of a JSON-RPC call. The response repeats
// it, and depends on it in no other way. ok is false if there is none. It is called for each request, so it must be
// fast and may be wrong.
type Own func(body string) (from, to int, ok bool)

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

// Forget empties the fast lane. It must be called when what responses are made by is replaced.
func (s *Stack) Forget() {
	if s.o.Lane != nil {
		s.o.Lane.Forget()
	}
}

// placeOf returns where the fast lane keeps what answers a request again, or nil for nowhere. With tracing on, each
// request goes to its handler.
func (s *Stack) placeOf(r *http.Request) record.Place {
	c := conn.Of(r)
	if s.o.Tracing != nil || c == nil {
		return nil
	}
	if lane, ok := c.Lane().(Lane); ok {
		return lane.PlaceOf(r, c.LaneConn())
	}
	return nil
}

// Arrive lets the lane of a client's connection take up a gRPC call. It returns nil if the lane cannot.
func (s *Stack) Arrive(client *conn.Conn, method string, metadata map[string][]string, keyed bool, start time.Time) Call {
	if lane, ok := client.Lane().(CallLane); ok && s.o.Lane != nil && s.o.Tracing == nil {
		return lane.Arrive(client, method, metadata, keyed, start)
	}
	return nil
}
