package node

import (
	"errors"
	"net"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
)

// newBreaker makes the breaker of one of a node's servers: of REST, the RPC, or gRPC. Each may
// fail while the others are well.
func newBreaker(name string, o Options, blames func(error) bool) *gobreaker.CircuitBreaker[*Answer] {
	return upstream.NewBreaker[*Answer](upstream.BreakerOptions{
		Outage:   upstream.NewOutage(o.Logger, name),
		Failures: maxFailures, Cooldown: breakerOpen,
		Excluded: func(err error) bool { return !blames(err) },
	})
}

// breakerOf is the breaker of the server that a request asks.
func (e *endpoint) breakerOf(r Request) *gobreaker.CircuitBreaker[*Answer] {
	switch {
	case r.Invoke != nil:
		return e.grpc.breaker
	case r.Call != nil:
		return e.calls
	default:
		return e.breaker
	}
}

// blames tells failures that speak against the node. A connection dropped
// without an answer does not: some queries make the node's handler panic, and
// one such query, repeated, must not take the node away from all clients.
func blames(err error) bool {
	if silent, ok := errors.AsType[*upstream.Error](err); ok && silent.Kind == upstream.Timeout {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || errors.Is(err, errNoNode)
}

// refuses tells a failed dial: nothing listens there now.
func refuses(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// blamesGRPC tells failures that speak against a node's gRPC server.
func blamesGRPC(err error) bool {
	kind := upstream.KindOf(err)
	return kind == upstream.Timeout || kind == upstream.Unreachable
}
