package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/web"
)

func (s *Service) listen(ctx context.Context) (err error) {
	if files := s.cfg.HTTP.TLS; files.Cert != "" {
		if s.certificate, err = listener.NewCertificate(files.Cert, files.Key, s.log); err != nil {
			return fmt.Errorf("http.tls.cert: %w", err)
		}
		s.certificate.Measure(s.registry)
		s.certificate.Validity() // for the log
	}
	public := s.forClients()
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
	s.adminPages = s.newAdmin()
	if s.cfg.Admin == "none" {
		return nil
	}
	var lc net.ListenConfig
	if s.admin, err = lc.Listen(ctx, "tcp", s.cfg.Admin); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	s.onClose(ignoreClosed(s.admin.Close))
	return nil
}

// forClients returns the options of client listeners.
func (s *Service) forClients() listener.Options {
	return listener.Options{
		Most: s.cfg.HTTP.MaxConnections, Share: s.cfg.HTTP.ClientConnections, Exempt: s.exempt,
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

// exempt reports whether a client may have any number of connections.
func (s *Service) exempt(a netip.Addr) bool { return a.IsLoopback() || s.proxy.Trusts(a) }

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
		MaxHeaderBytes:    4 * web.MaxHeader, // the proxy refuses smaller ones in its own form
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
