// Package service builds and runs all parts of serve.
//
//   - service.go creates and connects the parts, dialect.go detects the dialect of the
//     nodes, rpc.go, grpc.go and tracing.go create optional parts, and listen.go opens
//     the listeners.
//   - run.go serves until the end, drain.go finishes requests, and reload.go applies a
//     changed configuration.
//   - index.go fills the collection store, and reports its state.
//   - inspect.go finds out for tipcache check what /readyz would say.
//   - readiness.go reports and logs the health of the parts, outages.go collects the
//     outages of the upstreams, and admin.go has the other calls of the admin listener.
package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/admin"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Service has all parts of serve. They are built bottom up and closed top down.
type Service struct {
	cfg      config.Config // as at the start, with the detected dialect
	running  config.Config // with the reloaded settings, and chain.dialect as configured. /admin/config shows it
	log      *slog.Logger
	logs     parts.Logs
	registry *prometheus.Registry
	tracing  trace.TracerProvider // nil disables traces

	shared   redis.Shared     // nil if no Redis is configured
	memory   *account.Account // memory other than the cache's
	cache    *cache.Cache
	pool     *node.Pool
	store    *collections.Store // nil if collections are neither listed nor indexed
	watch    *collections.Watch // nil without a store
	indexer  *indexer.Indexer   // nil disables indexing
	metadata *metadata.Service  // nil without a provider
	proxy    *proxy.Server
	lane     *lane.Lane // nil if disabled
	webLane  web.Lane   // the same, but a nil interface if disabled

	Addresses   Addresses
	public      *conn.Listener
	rpc         *rpcService  // nil if the RPC is not served
	grpc        *grpcService // nil if gRPC is not served
	adminPages  *admin.Handler
	adminServer *http.Server
	adminEnded  chan error        // receives the error of the admin server; closed if the listener is disabled
	certificate *conn.Certificate // for all listeners; nil disables TLS
	stopping    atomic.Bool

	readiness      *readinessLog
	outages        upstream.Outages // outages of all upstreams except the nodes
	redisUse       *upstream.Outage // whether Redis is used; nil if none is configured
	eventsUse      *upstream.Outage // whether events can be read; nil if the RPC is not served
	certificateUse *upstream.Outage // whether the files of http.tls are usable; nil without TLS
	configMu       sync.Mutex       // held while running changes
	reloading      Reloading
	reloads        reloadMetrics
	waitsFor       atomic.Pointer[string] // what New waits for; nil if it has not waited
	started        atomic.Bool            // New has built all parts
	closers        []func() error
}

// New builds the parts and opens the listeners. Without chain.dialect it returns once a node has answered, and the admin listener
// is served before. Otherwise all upstreams may be unreachable.
func New(ctx context.Context, cfg config.Config, log parts.Logs, reloading Reloading) (*Service, error) {
	s := newService(cfg, log, reloading)
	s.measureReloads()
	err := s.open(ctx, s.openAdmin, s.openDialect, s.openTracing, s.openCache, s.openLane, s.openPool, s.openStore, s.openMetadata, s.openProxy, s.listen)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.watchOutages()
	s.started.Store(true)
	return s, nil
}

// newService returns a service without parts.
func newService(cfg config.Config, log parts.Logs, reloading Reloading) *Service {
	s := &Service{
		cfg: cfg, running: cfg, log: log.Logger, logs: log, reloading: reloading, registry: parts.NewRegistry(),
		readiness: &readinessLog{log: log.Logger, state: web.NewReadiness(), logged: map[string]time.Time{}, worked: map[string]bool{}},
	}
	s.onClose(log.Close)
	return s
}

// open calls steps until one fails.
func (s *Service) open(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) openCache(context.Context) (err error) {
	o := s.cfg.CacheOptions()
	s.memory = account.New(o.MemoryBytes/2, s.registry)
	o.Account, o.Logger, o.Registerer = s.memory, s.log, s.registry
	if s.cfg.Redis.URL != "none" {
		shared := redis.Options{Settings: s.cfg.Redis, FlightTimeout: s.cfg.Cache.Flight, Logger: s.log, Registerer: s.registry}
		if s.shared, err = redis.Open(shared); err != nil {
			return err
		}
		s.onClose(s.shared.Close)
		o.Shared = s.shared
	}
	if s.cache, err = cache.New(o); err != nil {
		return err
	}
	s.onClose(s.cache.Close)
	if len(s.cfg.Chain.Nodes) == 0 { // no node reports the chain id
		s.cache.SetNamespace(namespace(cmp.Or(s.cfg.Chain.ID, "none"), 0))
	}
	return nil
}

// openLane creates the fast lane first, because later parts invalidate it.
func (s *Service) openLane(context.Context) error {
	if h := s.cfg.HTTP; h.FastLane {
		s.lane = lane.New(lane.Options{
			IdleTimeout: h.IdleTimeout, ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout(h), Memory: s.memory, Registerer: s.registry,
		})
		s.webLane = s.lane
	}
	return nil
}

func (s *Service) openPool(context.Context) (err error) {
	o := s.cfg.NodeOptions()
	o.OnEpoch = func(id string, epoch int64) { // entries of another chain or epoch are never served
		s.cache.SetNamespace(namespace(id, epoch))
		if s.lane != nil {
			s.lane.Forget()
		}
	}
	o.Memory, o.Logger, o.Registerer = s.memory.Upstream(), s.log, s.registry
	if s.shared != nil {
		o.Ledger = s.shared
	}
	if s.pool, err = node.New(o); err == nil {
		s.onClose(s.pool.Close)
		err = s.cfg.CheckRoutes() // Validate could not: it did not know the dialect
	}
	return err
}

// namespace returns a name that is unique for a chain and its epoch. The first epoch has no suffix,
// unless the chain id contains a #.
func namespace(chainID string, epoch int64) string {
	if epoch == 0 && !strings.Contains(chainID, "#") {
		return chainID
	}
	return chainID + "#" + strconv.FormatInt(epoch, 10)
}

// openStore opens the store if it is listed or indexed.
func (s *Service) openStore(ctx context.Context) (err error) {
	if !s.cfg.NeedsStore() {
		return nil
	}
	if s.store, err = parts.OpenStore(ctx, s.cfg, s.memory.Upstream(), s.log, s.registry); err != nil {
		return err
	}
	s.onClose(s.store.Close)
	s.watch = collections.NewWatch(s.store, s.registry)
	if s.cfg.Index.Enabled {
		o := s.cfg.IndexOptions()
		memory := s.memory.Part(account.Upstream, s.memory.Limit()/4, 0) // so that responses of nodes have the rest
		o.Store, o.Memory, o.Follow, o.Logger, o.Registerer, o.Tracing = s.store, memory, true, s.log, s.registry, s.tracing
		s.indexer, err = indexer.New(o)
	}
	return err
}

func (s *Service) openMetadata(context.Context) (err error) {
	chain := s.cfg.IndexOptions().Network.Name
	s.metadata, err = metadata.Open(metadata.Options{
		Settings: s.cfg.Metadata, Chain: chain, Store: listing.MetadataStore{Cache: s.cache, Chain: chain},
		Memory: s.memory.Upstream(), Logger: s.log, Registerer: s.registry,
	})
	if err == nil {
		s.onClose(s.metadata.Close)
	}
	return err
}

func (s *Service) openProxy(context.Context) (err error) {
	o := s.cfg.ProxyOptions()
	o.Cache, o.Chain.Nodes, o.Web.Lane = s.cache, s.pool, s.webLane
	o.ReadAhead = proxy.ReadAhead{Share: proxy.DefaultReadAhead, Room: s.pool.Spare}
	o.Web.Logger, o.Web.Registerer, o.Web.Readiness = s.log, s.registry, s.readiness.state
	o.Web.Record.AccessLog, o.Web.Record.Tracing, o.Web.Record.TraceRatio = s.logs.Requests, s.tracing, s.cfg.Tracing.Ratio
	o.Web.SharedLimits = limits.Shared{Redis: s.shared, Timeout: s.cfg.Redis.Timeout, Namespace: func() string {
		return namespace(cmp.Or(s.pool.ChainID(), "none"), 0) // without the epoch, because a rollback must not refill the buckets
	}}
	if o.GRPC.State.GRPC {
		o.GRPC.Stream = s.pool.Stream
	}
	if s.store != nil && s.cfg.Collections.Auth != "closed" {
		o.Collections.Store, o.Collections.Watch, o.Collections.Filled = s.store, s.watch, s.cfg.Index.Enabled
	}
	if s.metadata != nil {
		o.Collections.Metadata = s.metadata
	}
	s.proxy, err = proxy.New(o)
	return err
}

func (s *Service) onClose(f func() error) { s.closers = append(s.closers, f) }

// Close releases the parts. Run calls it at its end.
func (s *Service) Close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Store returns the collection store, nil if there is none.
func (s *Service) Store() *collections.Store { return s.store }
