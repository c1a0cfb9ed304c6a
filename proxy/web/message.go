package web

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/record"
)

// Call admits, counts and logs a call of another protocol, such as gRPC, whose request r has the headers of an HTTP
// request. Its record has the route, the start and the slot in the fast lane.
func (s *Stack) Call(r *Request, serve func(*Request) (size int, err error)) error {
	r.Request = s.Recorder.Begin(r.Request, &r.Record)
	return s.perform(r, func() (int, error) {
		if err := s.Oversized(r.Request); err != nil {
			return 0, err
		}
		return serve(r)
	})
}

// Message admits, counts and logs a message on a connection that is no longer HTTP's, such as a WebSocket. opened is
// the request that opened the connection.
func (s *Stack) Message(opened *http.Request, route string, serve func(*Request) (size int, err error)) error {
	r := NewRequest(opened)
	r.Record = record.Record{Route: route, Start: time.Now(), ID: [1]string{record.RequestID(nil)}}
	return s.perform(r, func() (int, error) { return serve(r) })
}

// Repeat calls serve once more for a message that was admitted, counted and logged before. It does none of these again.
func (s *Stack) Repeat(r *Request, serve func(*Request) (size int, err error)) error {
	r.Record.Start = time.Now()
	_, err := recovered(func() (int, error) { return serve(r) })
	return err
}

func (s *Stack) perform(r *Request, serve func() (size int, err error)) error {
	s.Arrive(r)
	size, status, err := 0, http.StatusOK, s.admit(r)
	if err == nil {
		size, err = recovered(serve)
	}
	if err != nil {
		r.Record.Err = err
		status = r.Record.Fail().Status
	}
	s.end(r, status, size)
	return err
}
