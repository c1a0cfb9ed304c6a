package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/limits"
)

// APIKeyHeader carries the key of a client.
const APIKeyHeader = limits.KeyHeader

// SetKeys puts other keys in force, from the next request on.
func (s *Stack) SetKeys(keys []limits.Key) {
	s.admission.SetKeys(keys)
	s.Forget()
}

// SetLimits puts other limits in force, from the next request on.
func (s *Stack) SetLimits(l limits.Limits) {
	s.admission.Limits.Store(&l)
	s.Forget()
}

// AdmitKey lets clients pass that have a key, for as long as they may ask. How they stand is added
// to the headers of the answer.
func (s *Stack) AdmitKey(r *http.Request, answer http.Header, rec *Record) (err error) {
	rec.key, err = s.admission.AdmitKey(r, answer)
	rec.Tenant = rec.key.Name
	return err
}

// AdmitMore counts a request that was admitted as one as n more. Where it is limited the
// fast lane, which counts one, does not answer it.
func (s *Stack) AdmitMore(c *gin.Context, rec *Record, n int) error {
	client := limits.Client{Address: s.address(c.Request, rec.client), Key: rec.key}
	limited, err := s.admission.AdmitMore(c.Request.Context(), &client, n, c.Writer.Header())
	if limited {
		rec.KeepOutOfLane()
	}
	return err
}

// Trusts tells whether an address is that of a trusted proxy.
func (s *Stack) Trusts(addr netip.Addr) bool { return s.admission.Trusts(addr) }

// ClientNetwork names what a request's client is limited by: its IPv4 address, or
// the /64 of its IPv6 address.
func (s *Stack) ClientNetwork(r *http.Request) string { return s.admission.Network(r) }

// Client names a request's client, by whose name clients take turns: the name on the
// request's key, or else its network.
func (s *Stack) Client(r *http.Request, rec *Record) string {
	return s.admission.Name(r, rec.Tenant)
}

// A Payer is a client that is served on after its request, and pays for that by its
// limits.
type Payer struct {
	Name string // reads on its behalf take turns by it, beside the client's requests

	admission *limits.Admission
	client    limits.Client
}

// Payer is the client of a request that was admitted, by the keys and limits in force now.
// The error says, as AdmitKey's does, that its key is not valid any more.
func (s *Stack) Payer(r *http.Request, rec *Record) (*Payer, error) {
	client, err := s.admission.Renew(r, rec.key.Name != "")
	return &Payer{"streams of " + s.Client(r, rec), s.admission, client}, err
}

// Affords tells whether the client could pay now, as far as this process knows.
func (p *Payer) Affords() bool { return p.admission.Affords(&p.client, time.Now()) == 0 }

// Pay takes one request from the client's limits, and is 0. Where there is none it takes
// nothing, and is the time after which there may be one.
func (p *Payer) Pay(ctx context.Context) (wait time.Duration) {
	return p.admission.Spend(ctx, &p.client)
}

// NewWaiters makes places of their own for the requests of one interface that
// wait for a block.
func (s *Stack) NewWaiters() *limits.Places { return s.admission.NewWaiters() }

// NewPlaces makes places of their own for the requests of one interface that do something for long,
// which refusals name.
func (s *Stack) NewPlaces(doing string) *limits.Places {
	return s.admission.NewPlaces(maxLasting, doing)
}

const maxLasting = 1000
