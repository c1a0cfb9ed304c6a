package service

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/conn"
)

// headerTimeout is the time in which a client must send its headers.
const headerTimeout = 5 * time.Second

// Run serves until ctx ends, then drains and closes everything.
func (s *Service) Run(ctx context.Context) error {
	public := s.newServer(s.proxy)
	s.logStart()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.pool.Run(context.WithoutCancel(ctx)) }) // until the end of the drain
	spawn := func(ctx context.Context, run func(context.Context)) { group.Go(func() error { run(ctx); return nil }) }
	spawn(gctx, s.proxy.Run)
	spawn(gctx, s.watchReadiness)
	serving, drained := context.WithCancel(context.WithoutCancel(ctx))
	if s.watch != nil {
		spawn(serving, s.watch.Run)
	}
	if s.indexer != nil {
		spawn(gctx, s.index)
	}
	spawn(gctx, s.reloadAtSignals)
	s.serveClients(gctx, group, public)
	group.Go(func() error { return <-s.adminEnded })
	group.Go(func() error {
		<-gctx.Done()
		defer drained()
		return s.drain(public)
	})
	err := group.Wait()
	return errors.Join(err, s.Close())
}

// index fills the store. The service continues without it, and /readyz has the error.
func (s *Service) index(ctx context.Context) {
	if err := KeepIndexing(ctx, s.store, s.indexer, s.log); ctx.Err() == nil {
		s.log.Error("indexer ended, the store is no longer filled", "error", err)
	}
}

func (s *Service) logStart() {
	var nodes []string
	for _, url := range s.cfg.Chain.Nodes {
		nodes = append(nodes, config.Host(url))
	}
	redisAt, store := "none", "none"
	if s.shared != nil {
		redisAt = config.Host(s.cfg.Redis.URL)
	}
	if s.store != nil {
		store = s.store.Name()
	}
	logWarnings(s.log, s.cfg)
	s.log.Info("serving", "listen", s.Addresses.REST, "admin", s.Addresses.Admin, "version", parts.Version(), "tls", s.certificate != nil,
		"nodes", nodes, "chain", cmp.Or(s.cfg.Chain.ID, "the first one seen"), "store", store, "redis", redisAt)
	if s.cfg.Collections.Auth == "closed" {
		s.log.Warn("collections are closed until a store and keys are configured")
	}
}

// firstBlock is how long clients wait at the start for the newest block. Until it is known, requests
// that name a block are refused.
const firstBlock = 2 * time.Second

// serveClients serves all client listeners once the newest block is known or firstBlock has passed.
func (s *Service) serveClients(ctx context.Context, group *errgroup.Group, public *http.Server) {
	known := make(chan struct{})
	group.Go(func() error {
		defer close(known)
		if len(s.cfg.Chain.Nodes) > 0 {
			ctx, cancel := context.WithTimeout(ctx, firstBlock)
			defer cancel()
			_ = s.pool.WaitHeight(ctx, 1) // clients are served even if no block is known: requests that name one are refused then
		}
		s.check(ctx)
		if ctx.Err() == nil {
			notifySystemd(daemon.SdNotifyReady)
		}
		return nil
	})
	serve := func(accept func() error) { group.Go(func() error { <-known; return accept() }) }
	serve(func() error { return s.servePublic(public, s.public) })
	if s.rpc != nil {
		serve(func() error { return s.servePublic(s.rpc.server, s.rpc.listener) })
		group.Go(func() error { return s.rpc.feed.Run(s.rpc.sockets) })
	}
	if s.grpc != nil {
		serve(s.grpc.serve)
	}
}

// servePublic serves a client listener, with TLS if a certificate is configured.
func (s *Service) servePublic(server *http.Server, l *conn.Listener) error {
	server.TLSConfig = s.tls()
	return ignoreServerClosed(server.Serve(l))
}

// notifySystemd notifies systemd, if it runs the process with Type=notify.
func notifySystemd(state string) { _, _ = daemon.SdNotify(false, state) }

// writeTimeout leaves time for the response to a request that took its whole timeout.
func writeTimeout(h config.HTTP) time.Duration { return 2 * h.RequestTimeout }

func ignoreServerClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
