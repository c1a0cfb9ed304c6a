package web

import (
	"net/http"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
)

// SetKeys replaces the API keys. The next request is judged by the new ones. WebSockets and gRPC streams of removed keys end;
// Server ends their event streams.
func (s *Stack) SetKeys(keys []limits.Key) {
	s.Admission.SetKeys(keys)
	s.Forget()
	s.EndRevoked()
}

// SetLimits replaces the limits. The next request is judged by the new ones. Connections and streams that a rule denies end.
func (s *Stack) SetLimits(l limits.Limits) {
	s.Admission.Limits.Store(&l)
	s.Forget()
	s.EndRevoked()
}

// admit refuses requests above the rate of the client's address, or of its key if that has a rate of its own, and requests
// without memory.
func (s *Stack) admit(r *Request) error {
	if r.refused {
		return conn.ErrNoStream
	}
	client := &r.Record.Client
	if key, ok := s.Admission.KeyWithRate(r.Header.Get(limits.KeyHeader)); ok {
		client.Key, client.Turn = key, s.Admission.NextTurn()
	}
	return s.Admission.Admit(r.Context(), client, r.ResponseHeader)
}

// AdmitKey admits a request of a route that requires a key, within the key's rate, whose state it adds to the response.
func (s *Stack) AdmitKey(r *Request) (err error) {
	rec := &r.Record
	rec.Keyed = true
	if rec.Client.Key.Name != "" { // already admitted
		return nil
	}
	rec.Client.Key, err = s.Admission.AdmitKey(r.Request, r.ResponseHeader)
	return err
}

// AdmitMore counts n more requests for a request that was admitted as one.
func (s *Stack) AdmitMore(r *Request, n int) error {
	r.Record.Charge.More += n
	return s.Admission.AdmitMore(r.Context(), &r.Record.Client, n, http.StatusBadRequest, r.ResponseHeader)
}

// AdmitOperation applies the access rules to an operation: a path of the public listener, or a method of RPC or gRPC.
func (s *Stack) AdmitOperation(r *Request, operation string) error {
	charged, err := s.Admission.AdmitOperation(r.Context(), &r.Record.Client, operation, r.ResponseHeader, &r.Record.Charge)
	if !charged {
		r.Record.KeepOutOfLane()
	}
	return err
}
