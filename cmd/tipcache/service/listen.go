package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/web"
)

func (s *Service) listen(ctx context.Context) (err error) {
	s.limitConnections()
	if s.public, err = s.listenForClients(ctx, "", s.cfg.Listen, s.webLane); err != nil {
		return err
	}
	rest := s.public.Addr().String()
	s.Addresses = Addresses{REST: rest, RPC: "none", GRPC: "none", GRPCWeb: rest, Admin: s.Addresses.Admin}
	if s.cfg.RPC.Listen != "" {
		if s.rpc, err = s.newRPC(ctx); err != nil {
			return fmt.Errorf("rpc.listen: %w", err)
		}
		s.Addresses.RPC = s.rpc.listener.Addr().String()
	}
	if s.cfg.GRPC.Listen != "" {
		if s.grpc, err = s.newGRPC(ctx); err != nil {
			return fmt.Errorf("grpc.listen: %w", err)
		}
		s.Addresses.GRPC = s.grpc.listener.Addr().String()
	}
	return nil
}

// otherFiles is the number of open files that suffices for nodes, Redis, the store and the admin listener.
const otherFiles = 1000

// limitConnections lowers the limit of connections per client listener, if the process may open too few files. Together, the
// listeners leave otherFiles of these files for other connections, or half of them if that is less.
func (s *Service) limitConnections() {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return
	}
	listeners := 1
	for _, other := range []string{s.cfg.RPC.Listen, s.cfg.GRPC.Listen} {
		if other != "" {
			listeners++
		}
	}
	most := int(min(files.Cur, math.MaxInt32))
	most = (most - min(most/2, otherFiles)) / listeners
	if limit := &s.cfg.HTTP.Connections.Most; *limit > most {
		s.log.Warn("http.max_connections is lowered, because the process may open too few files", "max_connections", most, "files", files.Cur)
		*limit = most
	}
}

// openAdmin opens the admin listener and serves it.
func (s *Service) openAdmin(ctx context.Context) (err error) {
	if files := s.cfg.HTTP.TLS; files.Cert != "" {
		if s.certificate, err = conn.NewCertificate(files.Cert, files.Key, s.log); err != nil {
			return fmt.Errorf("http.tls.cert: %w", err)
		}
		s.certificate.Measure(s.registry)
		s.certificate.Validity() // logs an expiry
	}
	s.adminPages = admin.New(admin.Options{
		Gatherer: s.registry, Ready: s.ready, Version: parts.Version(), Profiles: true,
		Calls: map[string]http.HandlerFunc{
			"GET /admin/explain": s.onceStarted(s.explain), "GET /admin/config": s.configuration, "POST /admin/purge": s.onceStarted(s.purge),
		},
	})
	s.adminPages.SetToken(s.cfg.AdminToken)
	s.adminServer, s.adminEnded, s.Addresses.Admin = s.adminPages.NewServer(parts.ServerLog(s.log)), make(chan error, 1), "none"
	var running sync.WaitGroup
	running.Go(func() { s.adminPages.Run(context.WithoutCancel(ctx)) })
	s.onClose(func() error {
		s.adminPages.Close()
		err := s.adminServer.Close()
		running.Wait()
		return err
	})
	if s.cfg.Admin == "none" {
		close(s.adminEnded)
		return nil
	}
	l, err := admin.Listen(ctx, s.cfg.Admin, s.log)
	if err != nil {
		return err
	}
	s.Addresses.Admin = l.Addr().String()
	running.Go(func() {
		if s.adminServer.TLSConfig = s.tls(); s.adminServer.TLSConfig == nil {
			s.adminEnded <- ignoreServerClosed(s.adminServer.Serve(l))
		} else {
			s.adminEnded <- ignoreServerClosed(s.adminServer.ServeTLS(l, "", ""))
		}
	})
	return nil
}

// listenForClients opens a listener, which Close closes. Loopback and trusted proxies may have any number of connections. A nil
// lane disables the fast lane.
func (s *Service) listenForClients(ctx context.Context, name, address string, lane conn.Lane) (*conn.Listener, error) {
	o := conn.Options{
		Settings: s.cfg.HTTP.Connections,
		Name:     name, Lane: lane,
		Exempt: func(a netip.Addr) bool { return a.IsLoopback() || s.proxy.Trusts(a) },
		Memory: s.memory, TLS: s.tls(), Header: headerTimeout, Logger: s.log, Metrics: s.registry,
	}
	if s.cfg.HTTP.ProxyProtocol == "required" {
		o.Proxies = s.proxy.Trusts
	}
	l, err := conn.Listen(ctx, address, o)
	if err == nil {
		s.onClose(func() error { _ = l.Close(); return nil }) // its server has closed it before, unless it never served
	}
	return l, err
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
		ReadTimeout:       s.cfg.HTTP.RequestTimeout,
		WriteTimeout:      writeTimeout(s.cfg.HTTP),
		IdleTimeout:       s.cfg.HTTP.IdleTimeout,
		ConnContext:       conn.Context,
		ConnState:         conn.State,
		HTTP2:             conn.HTTP2(),
		MaxHeaderBytes:    4 * web.MaxHeader, // more than MaxURL and MaxHeader, so that package web can refuse longer ones in the form of the API
		ErrorLog:          parts.ServerLog(s.log),
	}
}
