package proxy

import (
	"net/http"
	"net/netip"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
)

// SelectRoute selects the keys of one route: those at explicit heights too.
// The collection listing is the route "collections".
func (s *Server) SelectRoute(name string) (cache.Selection, error) {
	if name == "collections" {
		return collections.Select(), nil
	}
	return s.now().dialect.SelectRoute(name)
}

// SelectAddress selects the keys that name an address, or a public key: of
// queries about it, of the collection and of its metadata. The address may be
// written in any of its forms.
func (s *Server) SelectAddress(address string) (cache.Selection, error) {
	return s.now().dialect.SelectAddress(address)
}

// SetClasses puts other classes, and other policies of single routes, in force
// from the next request on. An error says that a route does not exist; then
// nothing has changed.
func (s *Server) SetClasses(classes blocks.Classes, own map[string]cache.Policy) error {
	defer s.stack.Forget()
	defer s.o.Cache.ForgetAhead()
	if err := s.setDoorClasses(classes); err != nil {
		return err
	}
	return s.now().dialect.SetClasses(classes, own)
}

// SetKeys puts other keys in force, from the next request on. Streams of a key that is
// gone end.
func (s *Server) SetKeys(keys []limits.Key) {
	s.stack.SetKeys(keys)
	s.streams.Readmit()
}

// SetLimits puts other limits in force, from the next request and the next event of a
// stream on.
func (s *Server) SetLimits(l limits.Limits) {
	s.stack.SetLimits(l)
	s.streams.Readmit()
}

// Connects tells whether the page that a request comes from may open a WebSocket.
func (s *Server) Connects(r *http.Request) bool { return s.stack.Connects(r) }

// Trusts tells whether an address is that of a trusted proxy, behind which there
// are many clients.
func (s *Server) Trusts(addr netip.Addr) bool { return s.stack.Trusts(addr) }

// Forget has the fast lane forget all requests: what they ask for has become
// another thing, or is gone.
func (s *Server) Forget() { s.stack.Forget() }
