package web

import (
	"cmp"
	"context"
	"net/http"
	"time"

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

// A Limiter applies a client's limits to what the client is sent after its first response, such as events of a stream.
type Limiter struct {
	Name string // queue name of the reads for the client, which is separate from that of its requests

	admission *limits.Admission
	client    limits.Client
}

// Limiter returns the limiter of an admitted request's client, with the current keys and limits. It fails if the
// key is no longer valid, or an access rule denies one of the operations.
func (s *Stack) Limiter(r *Request, operations ...string) (*Limiter, error) {
	client, err := s.Admission.Renew(r.Request, r.Record.Client.Key.Name != "")
	for _, operation := range operations {
		err = cmp.Or(err, s.Admission.Denied(operation))
	}
	return &Limiter{"streams of " + r.Record.Client.Name(), s.Admission, client}, err
}

// Allows reports whether this process's buckets of the client's limits have room for one more request.
func (l *Limiter) Allows() bool { return l.admission.Delay(&l.client, time.Now()) == 0 }

// Spend takes one request from the client's limits and returns 0, or returns the time until the next.
func (l *Limiter) Spend(ctx context.Context) (wait time.Duration) {
	return l.admission.Spend(ctx, &l.client)
}
