package service

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/tipcache/tipcache/proxy/conn"
	calls "github.com/tipcache/tipcache/proxy/grpc"
)

// A grpcService serves gRPC on its own listener.
type grpcService struct {
	listener *conn.Listener
	server   *grpc.Server
	handler  *calls.Handler
}

func (s *Service) newGRPC(ctx context.Context) (*grpcService, error) {
	var lane conn.Lane
	if s.lane != nil {
		lane = s.lane.ForCalls()
	}
	l, err := s.listenForClients(ctx, "grpc", s.cfg.GRPC.Listen, lane)
	if err != nil {
		return nil, err
	}
	d := s.proxy.GRPC()
	return &grpcService{l, d.NewServer(headerTimeout, s.cfg.HTTP.IdleTimeout), d}, nil
}

func (g *grpcService) serve() error {
	if err := g.server.Serve(g.listener); !errors.Is(err, grpc.ErrServerStopped) { // stopped before Serve was called
		return err
	}
	return nil
}

// drainGRPC sends clients to other replicas and finishes calls in flight.
func (s *Service) drainGRPC(ctx context.Context) error {
	if s.grpc == nil {
		return nil
	}
	s.grpc.handler.Drain()
	defer context.AfterFunc(ctx, s.grpc.server.Stop)()
	s.grpc.server.GracefulStop()
	if ctx.Err() != nil {
		return fmt.Errorf("gRPC: calls cut off: %w", ctx.Err())
	}
	return nil
}
