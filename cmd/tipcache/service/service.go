// Package service is what serve runs: the wiring of all parts, and their life.
//
//   - service.go lists the parts, open.go builds them and joins them to each other,
//     and listen.go opens the listeners; dialect.go finds out what the nodes speak;
//   - run.go serves until the end, drain.go is that end, and reload.go puts another
//     configuration in force;
//   - admin.go reports the health of the parts, and readiness.go has the log told of
//     it; purge.go is a call of the admin listener;
//   - indexing.go fills the collection store when it is this replica's turn;
//     tracing.go sends spans.
package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/proxy/audit"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Service is everything that serve runs: built bottom up, closed top down.
type Service struct {
	cfg      config.Config
	log      *slog.Logger
	logs     parts.Logs
	registry *prometheus.Registry
	tracing  trace.TracerProvider // nil: no traces

	redis    goredis.UniversalClient // nil: none
	shared   *redis.Store            // nil: no other replica
	cache    *cache.Cache
	pool     *node.Pool
	auditor  *audit.Auditor     // nil: nothing is read again
	store    *collections.Store // nil: collections are not listed, and none are counted
	watch    *collections.Watch // of the store
	indexer  *indexer.Indexer   // nil: the store is not filled here
	metadata *metadata.Service  // nil: no provider
	proxy    *proxy.Server
	lane     *lane.Lane // nil: switched off

	public      *listener.Listener
	rpc         *rpcService  // nil: the RPC is not served
	grpc        *grpcService // nil: gRPC is not served
	admin       net.Listener // nil when switched off
	adminPages  *admin.Handler
	certificate *listener.Certificate // of both; nil: no TLS
	stopping    atomic.Bool

	readiness    *readinessLog
	undetermined bool       // no node has said yet which dialect it speaks
	force        sync.Mutex // held while settings or the dialect are put in force
	reloader     *reloader  // nil: the configuration stays as it is
	reloads      reloads
	closers      []func() error
}

// New builds the parts and opens the listeners. Nothing that is absent
// at start is an error but a listener's address that is taken.
func New(ctx context.Context, cfg config.Config, log parts.Logs) (*Service, error) {
	s := &Service{cfg: cfg, log: log.Logger, logs: log, registry: parts.NewRegistry()}
	s.reloads, s.readiness = newReloads(s.registry), newReadinessLog(s.log)
	build := []func(context.Context) error{s.openTracing, s.openCache, s.openLane, s.openPool, s.openStore, s.openMetadata, s.openProxy, s.listen}
	s.onClose(log.Close)
	for _, step := range build {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Service) onClose(f func() error) { s.closers = append(s.closers, f) }

// Close closes what New has opened, for a Service that is not run.
func (s *Service) Close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Store is the collection store, nil where there is none.
func (s *Service) Store() *collections.Store { return s.store }

// Addr is the address of the public listener.
func (s *Service) Addr() string { return s.public.Addr().String() }

// AdminAddr is that of the admin listener, "none" where there is none.
func (s *Service) AdminAddr() string {
	if s.admin == nil {
		return "none"
	}
	return s.admin.Addr().String()
}
