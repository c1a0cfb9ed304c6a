package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"google.golang.org/grpc"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/proxy/conn"
	calls "github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/events"
)

func (s *Service) listen(ctx context.Context) (err error) {
	if files := s.cfg.HTTP.TLS; files.Cert != "" {
		if s.certificate, err = listener.NewCertificate(files.Cert, files.Key, s.log); err != nil {
			return fmt.Errorf("http.tls.cert: %w", err)
		}
		s.certificate.Measure(s.registry)
		s.certificate.Validity() // logs an expiry
	}
	public := s.clientOptions()
	public.Lane = s.webLane()
	if s.public, err = listener.Listen(ctx, s.cfg.Listen, public); err != nil {
		return err
	}
	s.onClose(ignoreClosed(s.public.Close))
	if s.cfg.RPC.Listen != "" {
		if s.rpc, err = s.newRPC(ctx); err != nil {
			return fmt.Errorf("rpc.listen: %w", err)
		}
		s.onClose(ignoreClosed(s.rpc.listener.Close))
	}
	if s.cfg.GRPC.Listen != "" {
		if s.grpc, err = s.newGRPC(ctx); err != nil {
			return fmt.Errorf("grpc.listen: %w", err)
		}
		s.onClose(ignoreClosed(s.grpc.listener.Close))
	}
	s.adminPages = admin.New(admin.Options{
		Gatherer: s.registry, Ready: s.ready, Version: parts.Version(), Profiles: true,
		Calls: map[string]http.HandlerFunc{"GET /admin/explain": s.explain, "GET /admin/config": s.configuration, "POST /admin/purge": s.purge},
	})
	s.adminPages.SetToken(s.cfg.AdminToken)
	if s.cfg.Admin == "none" {
		return nil
	}
	if s.admin, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Admin); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	s.onClose(ignoreClosed(s.admin.Close))
	return nil
}

// clientOptions returns the options of client listeners. Loopback and trusted proxies may have any
// number of connections.
func (s *Service) clientOptions() listener.Options {
	var proxies func(netip.Addr) bool
	if s.cfg.HTTP.ProxyProtocol == "required" {
		proxies = s.proxy.Trusts
	}
	return listener.Options{
		Proxies: proxies,
		Most:    s.cfg.HTTP.MaxConnections, Share: s.cfg.HTTP.ClientConnections,
		Exempt: func(a netip.Addr) bool { return a.IsLoopback() || s.proxy.Trusts(a) },
		Memory: s.memory, TLS: s.tls(), Header: headerTimeout, Logger: s.log, Metrics: s.registry,
	}
}

// tls returns the TLS configuration of the listeners, nil without a certificate.
func (s *Service) tls() *tls.Config {
	if s.certificate == nil {
		return nil
	}
	return s.certificate.Config()
}

// newServer returns an HTTP server for clients.
func (s *Service) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.cfg.HTTP.Request,
		WriteTimeout:      writeTimeout(s.cfg.HTTP),
		IdleTimeout:       idleTimeout,
		ConnContext:       conn.Context,
		ConnState:         conn.State,
		HTTP2:             conn.HTTP2(),
		MaxHeaderBytes:    4 * web.MaxHeader, // package web refuses headers above MaxHeader with a body
		ErrorLog:          parts.ServerLog(s.log),
	}
}

// An rpcService serves the CometBFT RPC on its own listener, with WebSocket and events.
type rpcService struct {
	listener *listener.Listener
	server   *http.Server
	socket   *socket.Handler
	feed     *events.Feed

	sockets context.Context //nolint:containedctx // ends when the last WebSocket is drained
	end     context.CancelFunc
}

func (s *Service) newRPC(ctx context.Context) (*rpcService, error) {
	clients := s.clientOptions()
	clients.Name = "rpc"
	if s.lane != nil {
		clients.Lane = s.lane.ForRPC(rpc.FindCallerID)
	}
	l, err := listener.Listen(ctx, s.cfg.RPC.Listen, clients)
	if err != nil {
		return nil, err
	}
	r := &rpcService{listener: l, feed: events.New(parts.Events(s.pool, s.log, s.registry))}
	r.sockets, r.end = context.WithCancel(context.WithoutCancel(ctx))
	handler := s.proxy.RPC()
	o := socket.Options{Write: s.cfg.HTTP.Request, Message: int64(s.cfg.Chain.MaxTxBytes)}
	o.Methods, o.Feed, o.Origin, o.Registerer = handler, r.feed, s.proxy.Connects, s.registry
	o.Listen = func(r *http.Request) socket.Listener { return s.proxy.Listen(r) }
	r.socket = socket.New(o)
	handler.SetSocket(r.socket)
	r.server = s.newServer(handler)
	return r, nil
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

// A grpcService serves gRPC on its own listener.
type grpcService struct {
	listener *listener.Listener
	server   *grpc.Server
	handler  *calls.Handler
}

func (s *Service) newGRPC(ctx context.Context) (*grpcService, error) {
	clients := s.clientOptions()
	clients.Name = "grpc"
	if s.lane != nil {
		clients.Lane = s.lane.ForCalls()
	}
	l, err := listener.Listen(ctx, s.cfg.GRPC.Listen, clients)
	if err != nil {
		return nil, err
	}
	d := s.proxy.GRPC()
	return &grpcService{l, d.NewServer(headerTimeout, idleTimeout), d}, nil
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
