package proxy

import (
	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/collections"
)

// SelectRoute selects the keys of one route: those at explicit heights too.
// The collection listing is the route "collections".
func (s *Server) SelectRoute(name string) (cache.Selection, error) {
	if name == "collections" {
		return collections.Select(), nil
	}
	return s.now().chain.SelectRoute(name)
}

// SelectAddress selects the keys that name an address, or a public key: of
// queries about it, of the collection and of its metadata. The address may be
// written in any of its forms.
func (s *Server) SelectAddress(address string) (cache.Selection, error) {
	return s.now().chain.SelectAddress(address)
}
