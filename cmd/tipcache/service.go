package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/admin"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/indexer"
	"github.com/tipcache/tipcache/upstream/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// service is everything that serve runs: built bottom up, closed top down.
type service struct {
	cfg      config.Config
	log      *slog.Logger
	requests io.Writer // takes the access log
	registry *prometheus.Registry
	tracing  trace.TracerProvider // nil: no traces

	redis    goredis.UniversalClient // nil: none
	ledger   node.Ledger             // nil: no other replica
	cache    *cache.Cache
	pool     *node.Pool
	store    *collections.Store
	watch    *storeWatch
	indexer  *indexer.Indexer  // nil: the store is not filled here
	metadata *metadata.Service // nil: no provider
	proxy    *proxy.Server
	lane     *lane.Lane // nil: switched off

	public      *listener.Listener
	admin       net.Listener // nil when switched off
	adminPages  *admin.Handler
	reloads     *reloads
	certificate *listener.Certificate // of both; nil: no TLS
	stopping    atomic.Bool
	closers     []func() error
}

// newService builds the parts and opens the listeners. Nothing that is absent
// at start is an error but a listener's address that is taken.
func newService(ctx context.Context, cfg config.Config, log logs) (*service, error) {
	s := &service{cfg: cfg, log: log.Logger, requests: log.requests, registry: newRegistry()}
	s.reloads = newReloads(s.registry)
	build := []func(context.Context) error{s.openTracing, s.openLane, s.openCache, s.openPool, s.openStore, s.openMetadata, s.openProxy, s.listen}
	s.onClose(log.buffer.Close)
	for _, step := range build {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *service) onClose(f func() error) { s.closers = append(s.closers, f) }

func (s *service) close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	s.closers = nil
	return errors.Join(errs...)
}

func (s *service) openCache(context.Context) error {
	client, closeClient, err := openRedis(s.cfg.Redis)
	if err != nil {
		return err
	}
	s.onClose(closeClient)
	s.redis = client
	o := cacheOptions(s.cfg)
	o.Logger, o.Registerer = s.log, s.registry
	if client != nil {
		shared := sharedOptions(s.cfg)
		shared.Logger, shared.Registerer = s.log, s.registry
		store, err := redis.New(client, shared)
		if err != nil {
			return err
		}
		o.Shared, s.ledger = store, ledger{store}
	}
	if s.cache, err = cache.New(o); err != nil {
		return err
	}
	s.onClose(s.cache.Close)
	if len(s.cfg.Chain.Nodes) == 0 { // nobody will tell of a chain
		s.cache.SetNamespace(namespace(cmp.Or(s.cfg.Chain.ID, "none"), 0))
	}
	return nil
}

func (s *service) openPool(ctx context.Context) (err error) {
	s.cfg.Chain.Dialect = s.dialect(ctx)
	o := nodeOptions(s.cfg)
	o.OnEpoch = func(id string, epoch int64) { s.setNamespace(namespace(id, epoch)) }
	o.Ledger, o.Logger, o.Registerer = s.ledger, s.log, s.registry
	if s.pool, err = node.New(o); err == nil {
		s.onClose(s.pool.Close)
	}
	return err
}

// dialect is the one that is configured, or that the nodes are found to speak.
func (s *service) dialect(ctx context.Context) string {
	if s.cfg.Chain.Dialect != "" {
		return s.cfg.Chain.Dialect
	}
	found, err := node.Detect(ctx, nodeOptions(s.cfg).Endpoints)
	if err != nil {
		s.log.Warn("no node says which dialect it speaks, and the default is taken; chain.dialect sets it", "dialect", node.Story, "error", err)
		return string(node.Story)
	}
	s.log.Info("nodes were asked which dialect they speak", "dialect", found)
	return string(found)
}

// setNamespace empties what is kept of another chain.
func (s *service) setNamespace(chainID string) {
	s.cache.SetNamespace(chainID)
	if s.lane != nil {
		s.lane.Forget()
	}
}

func (s *service) openStore(ctx context.Context) (err error) {
	if s.store, err = openStore(ctx, s.cfg, s.log, s.registry); err != nil {
		return err
	}
	s.onClose(s.store.Close)
	s.watch = newStoreWatch(s.store, s.cfg.Index.Enabled, s.log, s.registry)
	if s.cfg.Index.Enabled {
		o := indexOptions(s.cfg)
		o.Store, o.Follow, o.Logger, o.Registerer, o.Tracing = s.store, true, s.log, s.registry, s.tracing
		s.indexer, err = indexer.New(o)
	}
	return err
}

func (s *service) openMetadata(context.Context) (err error) {
	o := metadataOptions(s.cfg)
	o.Store, o.Logger, o.Registerer = listing.MetadataStore(s.cache), s.log, s.registry
	if s.metadata, err = metadata.Open(s.cfg.Metadata.Provider, o); err == nil {
		s.onClose(s.metadata.Close)
	}
	return err
}

// openLane makes the fast lane before whatever has it forget.
func (s *service) openLane(context.Context) error {
	if h := s.cfg.HTTP; h.FastLane && h.TLS.Cert == "" { // it reads HTTP/1, not TLS
		s.lane = lane.New(lane.Options{IdleTimeout: h.Idle, ReadHeaderTimeout: h.Header, WriteTimeout: writeTimeout(h), Registerer: s.registry})
	}
	return nil
}

func (s *service) openProxy(context.Context) (err error) {
	o := proxyOptions(s.cfg)
	o.Cache, o.Chain.Nodes, o.Web.Lane = s.cache, s.pool, s.lane
	o.Web.Logger, o.Web.AccessLog, o.Web.Registerer, o.Web.Tracing = s.log, s.requests, s.registry, s.tracing
	o.Collections.Progress, o.Collections.Await = s.watch.progress, s.watch.await
	o.Collections.Store, o.Web.SharedLimits.Redis = s.store, s.redis
	o.Web.SharedLimits.Namespace = s.cache.Namespace
	if s.metadata != nil {
		o.Collections.Metadata = s.metadata
	}
	s.proxy, err = proxy.New(o)
	return err
}

func (s *service) listen(ctx context.Context) (err error) {
	if files := s.cfg.HTTP.TLS; files.Cert != "" {
		if s.certificate, err = listener.NewCertificate(files.Cert, files.Key, s.log); err != nil {
			return fmt.Errorf("http.tls.cert: %w", err)
		}
	}
	if s.public, err = listener.Listen(ctx, s.cfg.Listen, listener.Options{
		Most: s.cfg.HTTP.MaxConnections, Share: s.cfg.HTTP.ClientConnections, Exempt: func(a netip.Addr) bool { return a.IsLoopback() || s.proxy.Trusts(a) },
		Lane: s.lane, Logger: s.log, Metrics: s.registry,
	}); err != nil {
		return err
	}
	s.onClose(ignoreClosed(s.public.Close))
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

// run serves until ctx ends, then drains and closes everything.
func (s *service) run(ctx context.Context) error {
	public := &http.Server{
		Handler:           s.leaving(s.proxy.Handler()),
		ReadHeaderTimeout: s.cfg.HTTP.Header,
		ReadTimeout:       s.cfg.HTTP.Request,
		WriteTimeout:      writeTimeout(s.cfg.HTTP),
		IdleTimeout:       s.cfg.HTTP.Idle,
		ConnContext:       web.ConnContext,
		ConnState:         s.public.ConnState,
		MaxHeaderBytes:    4 * int(s.cfg.HTTP.MaxHeader), // the proxy's own limit answers in its own form
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	admin := &http.Server{Handler: s.adminPages, ReadHeaderTimeout: s.cfg.HTTP.Header}
	admin.RegisterOnShutdown(s.adminPages.Close)
	s.logStart()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.pool.Run(context.WithoutCancel(ctx)) }) // to the end of the drain
	group.Go(func() error { s.watch.run(gctx); return nil })
	group.Go(func() error { s.adminPages.Run(context.WithoutCancel(ctx)); return nil }) // until its server shuts down
	if s.indexer != nil {
		group.Go(func() error { s.runIndexer(gctx); return nil })
	}
	group.Go(func() error { return s.serve(public, s.public) })
	if s.admin != nil {
		group.Go(func() error { return s.serve(admin, s.admin) })
	}
	group.Go(func() error {
		<-gctx.Done()
		return s.drain(public, admin)
	})
	notifySystemd(daemon.SdNotifyReady)
	err := group.Wait()
	return errors.Join(err, s.close())
}

// logStart writes the first line: what runs, and what it stands between.
func (s *service) logStart() {
	var nodes []string
	for _, url := range s.cfg.Chain.Nodes {
		nodes = append(nodes, host(url))
	}
	redisAt := s.cfg.Redis.URL
	if redisAt != "none" && redisAt != "embedded" {
		redisAt = host(redisAt)
	}
	s.log.Info("serving", "listen", s.public.Addr().String(), "admin", s.adminAddr(), "version", version(), "tls", s.certificate != nil,
		"nodes", nodes, "chain", cmp.Or(s.cfg.Chain.ID, "the first one seen"), "store", s.store.Name(), "redis", redisAt)
	if s.cfg.Collections.Auth == "closed" {
		s.log.Warn("collections are closed: nobody may ask for them until a store and keys are configured")
	}
}

// serve answers on a listener, with TLS where a certificate is configured.
func (s *service) serve(server *http.Server, l net.Listener) error {
	if s.certificate == nil {
		return served(server.Serve(l))
	}
	server.TLSConfig = s.certificate.Config()
	return served(server.ServeTLS(l, "", ""))
}

// notifySystemd tells the service manager how far the process is, where it is one
// that wants to know (Type=notify).
func notifySystemd(state string) { _, _ = daemon.SdNotify(false, state) }

// writeTimeout is for the answer to a request that took all its time.
func writeTimeout(h config.HTTP) time.Duration { return 2 * h.Request }

// leaving asks clients that keep a connection to open the next one elsewhere
// once this process is about to end: closing it under them could lose the
// request they are just sending.
func (s *service) leaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// drain lets load balancers notice, then finishes what is in flight: first the
// public listener, so that the admin one tells of it to the end.
func (s *service) drain(public, admin *http.Server) error {
	s.stopping.Store(true)
	notifySystemd(daemon.SdNotifyStopping)
	if s.lane != nil {
		s.lane.Drain()
	}
	s.proxy.Drain() // streams come again elsewhere
	s.log.Info("draining", "delay", s.cfg.HTTP.DrainDelay.String(), "deadline", s.cfg.HTTP.Drain.String())
	time.Sleep(s.cfg.HTTP.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.HTTP.Drain)
	defer cancel()
	start := time.Now()
	err := s.shutdown(ctx, public)
	if err != nil {
		err = fmt.Errorf("requests cut off after %v: %w", s.cfg.HTTP.Drain, errors.Join(err, public.Close()))
	}
	err = errors.Join(err, admin.Shutdown(ctx), s.pool.Close())
	s.log.Info("drained", "took", time.Since(start).Round(time.Millisecond).String())
	return err
}

// shutdown finishes what is in flight, in the fast lane too.
func (s *service) shutdown(ctx context.Context, public *http.Server) error {
	if s.lane == nil {
		return public.Shutdown(ctx)
	}
	s.lane.CloseNew()
	if err := public.Shutdown(ctx); err != nil {
		return err
	}
	return s.lane.Wait(ctx)
}

// warming says that requests would better go to other replicas a moment longer.
func (s *service) warming() error {
	if s.cache.Warming() {
		return errors.New("taking over what other replicas use most")
	}
	return nil
}

func (s *service) draining() error {
	if s.stopping.Load() {
		return errors.New("finishing the last requests")
	}
	return nil
}

func (s *service) adminAddr() string {
	if s.admin == nil {
		return "none"
	}
	return s.admin.Addr().String()
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func ignoreClosed(f func() error) func() error {
	return func() error {
		if err := f(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
