package proxy

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
)

// SelectRoute selects the keys of one route: those at explicit heights too.
// The collection listing is the route "collections"; methods of the RPC are "rpc block" and so on,
// and values of the state, whichever of RPC and gRPC asks for them, "grpc state".
func (s *Server) SelectRoute(name string) ([]cache.Selection, error) {
	if name == "collections" {
		return []cache.Selection{collections.Select()}, nil
	}
	if all, ok := rpc.Select(name); ok {
		return all, nil
	}
	if name == "grpc state" {
		return []cache.Selection{state.Select("")}, nil
	}
	sel, err := s.now().chainAPI.SelectRoute(name)
	return []cache.Selection{sel}, err
}

// SelectMethod selects the values that a method of gRPC gives, by its name with its service,
// whichever of RPC and gRPC asks for them. An error says that none are kept.
func (s *Server) SelectMethod(name string) (cache.Selection, error) {
	name = "/" + strings.TrimPrefix(name, "/")
	if !state.Tells(name) && !state.Finds(name) {
		return cache.Selection{}, errors.New(web.Short(name) + " is no method whose answers are kept: expected one of a service named Query, as in cosmos.bank.v1beta1.Query/Balance")
	}
	return state.Select(name), nil
}

// SelectAddress selects the keys that name an address, or a public key: of
// queries about it, of the collection and of its metadata. The address may be
// written in any of its forms. Of what RPC and gRPC read, requests are found that name
// it in the same form, in small letters.
func (s *Server) SelectAddress(address string) ([]cache.Selection, error) {
	sel, err := s.now().chainAPI.SelectAddress(address)
	return []cache.Selection{sel, state.SelectNaming(strings.ToLower(address))}, err
}

// SetClasses puts other classes, and other policies of single routes, in force
// from the next request on. An error says that a route does not exist; then
// nothing has changed.
func (s *Server) SetClasses(classes blocks.Classes, own map[string]cache.Policy) error {
	defer s.stack.Forget()
	defer s.o.Cache.ForgetAhead()
	if err := s.setInterfaceClasses(classes); err != nil {
		return err
	}
	return s.now().chainAPI.SetClasses(classes, own)
}

// SetKeys puts other keys in force, from the next request on. Streams, polls, WebSockets and gRPC streams of a
// key that is gone end.
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

// Listen notes that the client of a request is told of blocks by events, on its connection.
func (s *Server) Listen(r *http.Request) *web.EventClient { return s.stack.Listen(r) }

// Trusts tells whether an address is that of a trusted proxy, behind which there
// are many clients.
func (s *Server) Trusts(addr netip.Addr) bool { return s.stack.Admission.Trusts(addr) }

// Forget has the fast lane forget all requests: what they ask for has become
// another thing, or is gone.
func (s *Server) Forget() { s.stack.Forget() }

// Drain ends the streams, whose clients are told to come again, and begins no more. Clients that keep a
// connection are asked to open the next one elsewhere. It is for the beginning of a shutdown.
func (s *Server) Drain() {
	s.stack.Drain()
	s.streams.Drain()
}
