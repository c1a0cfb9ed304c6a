package web

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
)

// SetKeys puts other keys in force, from the next request on. Connections and streams of keys that are gone end.
func (s *Stack) SetKeys(keys []limits.Key) {
	s.Admission.SetKeys(keys)
	s.Forget()
	s.EndRevoked()
}

// SetLimits puts other limits in force, from the next request on. Connections and streams that a rule denies end.
func (s *Stack) SetLimits(l limits.Limits) {
	s.Admission.Limits.Store(&l)
	s.Forget()
	s.EndRevoked()
}

// admit refuses requests above the rate of the client's address, or of its key if that has a rate of its own, and requests
// without memory.
func (s *Stack) admit(r *http.Request, rec *record.Record, answer http.Header) error {
	if !conn.HasStream(r) {
		return conn.ErrNoStream
	}
	if key, ok := s.Admission.KeyWithRate(r.Header.Get(limits.KeyHeader)); ok {
		rec.Client.Key, rec.Client.Turn = key, s.Admission.NextTurn()
		return s.Admission.AdmitBy(r.Context(), key, answer)
	}
	if s.Admission.Limits.Load().Address == (limits.Rate{}) {
		return nil
	}
	return s.Admission.AdmitAddress(r.Context(), rec.Client.Address, answer)
}

// AdmitKey admits a request of a route that requires a key, within the key's rate. It adds the state of the limit to
// the response headers.
func (s *Stack) AdmitKey(r *http.Request, answer http.Header, rec *record.Record) (err error) {
	rec.Keyed = true
	if rec.Client.Key.Name != "" { // already admitted
		return nil
	}
	rec.Client.Key, err = s.Admission.AdmitKey(r, answer)
	return err
}

// AdmitMore counts n more requests for a request that was admitted as one. If a limit applies, the fast lane, which counts
// one, does not answer it.
func (s *Stack) AdmitMore(c *gin.Context, rec *record.Record, n int) error {
	limited, err := s.Admission.AdmitMore(c.Request.Context(), &rec.Client, n, c.Writer.Header())
	if limited {
		rec.KeepOutOfLane()
	}
	return err
}

// AdmitOperation applies the access rules to an operation: a path of the public listener, or a method of RPC or gRPC.
func (s *Stack) AdmitOperation(r *http.Request, rec *record.Record, answer http.Header, operation string) error {
	limited, err := s.Admission.AdmitOperation(r.Context(), &rec.Client, operation, answer)
	if limited {
		rec.KeepOutOfLane()
	}
	return err
}

// A Payer is a client that is served on after its request, and pays for that by its
// limits.
type Payer struct {
	Name string // reads for the client take turns under this name, separately from its requests

	admission *limits.Admission
	client    limits.Client
}

// Payer returns the client of a request that was admitted, by the keys and limits in force now. It returns an error if
// its key is no longer valid, or an access rule denies one of the operations.
func (s *Stack) Payer(r *http.Request, rec *record.Record, operations ...string) (*Payer, error) {
	client, err := s.Admission.Renew(r, rec.Client.Key.Name != "")
	for _, operation := range operations {
		err = cmp.Or(err, s.Admission.Denied(operation))
	}
	return &Payer{"streams of " + rec.Client.Name(), s.Admission, client}, err
}

// Affords reports whether the client's rate allows the cost now, as far as this process knows.
func (p *Payer) Affords() bool { return p.admission.Affords(&p.client, time.Now()) == 0 }

// Pay takes one request from the client's limits, and is 0. Where there is none it takes
// nothing, and is the time after which there may be one.
func (p *Payer) Pay(ctx context.Context) (wait time.Duration) {
	return p.admission.Spend(ctx, &p.client)
}
