package service

import (
	"context"
	"net/http"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/node"
)

// An rpcService serves the CometBFT RPC on its own listener, with WebSocket and events.
type rpcService struct {
	listener *conn.Listener
	server   *http.Server
	socket   *socket.Handler
	feed     *events.Feed

	sockets context.Context //nolint:containedctx // ends when the last WebSocket is drained
	end     context.CancelFunc
}

func (s *Service) newRPC(ctx context.Context) (*rpcService, error) {
	var lane conn.Lane
	if s.lane != nil {
		lane = s.lane.ForRPC(jsonrpc.FindID)
	}
	l, err := s.listenForClients(ctx, "rpc", s.cfg.RPC.Listen, lane)
	if err != nil {
		return nil, err
	}
	r := &rpcService{listener: l, feed: events.New(events.Options{
		Heights: s.pool, Nodes: func() []events.Node { return eventNodes(s.pool) }, Memory: s.memory, Logger: s.log, Registerer: s.registry,
	})}
	r.sockets, r.end = context.WithCancel(context.WithoutCancel(ctx))
	handler := s.proxy.RPC()
	r.socket = handler.NewSocket(socket.Options{
		Feed: r.feed, Write: s.cfg.HTTP.RequestTimeout, Read: s.cfg.HTTP.RequestTimeout, Message: int64(s.cfg.Chain.MaxTxBytes), Registerer: s.registry,
	})
	r.server = s.newServer(handler)
	return r, nil
}

// eventNodes returns the nodes from which a feed reads events.
func eventNodes(pool *node.Pool) (all []events.Node) {
	for _, c := range pool.CometBFT() {
		all = append(all, events.Node{
			Name: c.Name(), Fit: func() bool { return c.Fit() && c.NoEvents() == nil }, NoEvents: c.NoEvents, Call: c.Call,
			Subscribe: func(ctx context.Context, query string) (events.Stream, error) {
				return c.Subscribe(ctx, query, events.MaxMessage)
			},
		})
	}
	return all
}

// drainRPC finishes calls in flight, including those on WebSockets.
func (s *Service) drainRPC(ctx context.Context) error {
	if s.rpc == nil {
		return nil
	}
	defer s.rpc.end()
	s.rpc.socket.Drain(ctx)
	return s.shutdown(ctx, s.rpc.server)
}
