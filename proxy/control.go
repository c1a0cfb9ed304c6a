package proxy

import (
	"context"
	"errors"
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

// SelectRoute selects the keys of one route, including those at a height. The collection listing is the route
// "collections"; methods of the RPC are "rpc block" and so on, and values of the state, which RPC and gRPC share, are
// "grpc state".
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
	return s.selections(func(api chainAPI) (cache.Selection, error) { return api.SelectRoute(name) })
}

// selections calls of for the chain's interface of each mount, and returns the results.
func (s *Server) selections(of func(chainAPI) (cache.Selection, error)) (all []cache.Selection, err error) {
	for _, v := range s.mounts {
		sel, err := of(v.chainAPI)
		if err != nil {
			return nil, err
		}
		all = append(all, sel)
	}
	return all, nil
}

// SelectMethod selects the values of a gRPC method, by its name with its service. It returns an error if nothing of
// the method is cached.
func (s *Server) SelectMethod(name string) (cache.Selection, error) {
	name = "/" + strings.TrimPrefix(name, "/")
	if !state.ReadsState(name) && !s.methods[name].Class.Fixed() {
		return cache.Selection{}, errors.New(web.Short(name) + " is not a cached method; expected a method of a service named Query, such as cosmos.bank.v1beta1.Query/Balance")
	}
	return state.Select(name), nil
}

// SelectAddress selects the keys that name an address or a public key, in any of its forms: queries about it, the
// collection and its metadata. Requests of RPC and gRPC are found if they name it in the same form, in lower case.
func (s *Server) SelectAddress(address string) ([]cache.Selection, error) {
	all, err := s.selections(func(api chainAPI) (cache.Selection, error) { return api.SelectAddress(address) })
	return append(all, state.SelectNaming(strings.ToLower(address))), err
}

// SetClasses replaces the classes, and the policies of single routes, from the next request on. It returns an error
// and changes nothing if a route does not exist.
func (s *Server) SetClasses(classes blocks.Classes, own map[string]cache.Policy) error {
	defer s.stack.Forget()
	defer s.o.Cache.ForgetAhead()
	for _, v := range s.mounts { // all have the same routes, so the first one refuses unknown names before any is changed
		if err := v.reader.SetClasses(classes, own); err != nil {
			return err
		}
	}
	for _, r := range s.readers {
		if err := r.SetClasses(classes, nil); err != nil {
			return err
		}
	}
	return nil
}

// SetKeys replaces the API keys, from the next request on. Streams, polls, WebSockets and gRPC streams of removed keys
// end.
func (s *Server) SetKeys(keys []limits.Key) {
	s.stack.SetKeys(keys)
	s.streams.Readmit()
}

// SetLimits replaces the limits, from the next request and the next event of a stream on. Streams, polls, WebSocket
// subscriptions and gRPC streams that a rule denies end.
func (s *Server) SetLimits(l limits.Limits) {
	s.stack.SetLimits(l)
	s.streams.Readmit()
}

// Trusts reports whether an address belongs to a trusted proxy, behind which there are many clients.
func (s *Server) Trusts(addr netip.Addr) bool { return s.stack.Admission.Trusts(addr) }

// Forget empties the fast lane, because what requests read has been replaced or removed.
func (s *Server) Forget() { s.stack.Forget() }

// Drain ends the streams, whose clients retry elsewhere, and refuses new ones. Responses
// ask clients to close their connections. It is called when a shutdown begins.
func (s *Server) Drain() {
	s.stack.Drain()
	s.streams.Drain()
}

// Settle charges Redis for the requests that the limits have admitted. It is called after the last request, and takes until ctx
// ends at most.
func (s *Server) Settle(ctx context.Context) { s.stack.Admission.Settle(ctx) }
