package web

import (
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/record"
)

// Call admits, counts and logs a call of another protocol, such as gRPC, whose request r has the headers of an HTTP
// request. rec has the route, the start and the slot in the fast lane. Call adds the client's rate limits to the headers of
// the response.
func (s *Stack) Call(r *http.Request, rec *record.Record, answer http.Header, serve func(*http.Request) (size int, err error)) error {
	rec.ID[0] = record.RequestID(r.Header)
	r = s.Recorder.Begin(r, rec)
	return s.exchange(r, rec, answer, func() (int, error) {
		if err := s.Oversized(r); err != nil {
			return 0, err
		}
		return serve(r)
	})
}

// Exchange admits, counts and logs a call on a connection that is no longer HTTP's, such as a WebSocket. opened is
// the request that opened the connection.
func (s *Stack) Exchange(opened *http.Request, route string, serve func(*record.Record) (size int, err error)) error {
	rec := &record.Record{Route: route, Start: time.Now(), ID: [1]string{record.RequestID(nil)}}
	return s.exchange(opened, rec, http.Header{}, func() (int, error) { return serve(rec) })
}

// Repeat calls serve once more for an exchange that was admitted, counted and logged before. It does none of these again.
func (s *Stack) Repeat(rec *record.Record, serve func(*record.Record) (size int, err error)) error {
	rec.Start = time.Now()
	_, err := recovered(func() (int, error) { return serve(rec) })
	return err
}

func (s *Stack) exchange(r *http.Request, rec *record.Record, answer http.Header, serve func() (size int, err error)) error {
	s.Arrive(r, rec)
	size, status, err := 0, http.StatusOK, s.admit(r, rec, answer)
	if err == nil {
		size, err = recovered(serve)
	}
	if err != nil {
		rec.Err = err
		status = rec.Fail().Status
	}
	s.end(r, rec, status, size)
	return err
}
