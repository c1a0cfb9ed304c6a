package service

import (
	"cmp"
	"context"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/audit"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

func (s *Service) openCache(context.Context) error {
	client, closeClient, err := parts.OpenRedis(s.cfg.Redis)
	if err != nil {
		return err
	}
	s.onClose(closeClient)
	s.redis = client
	o := parts.Cache(s.cfg)
	o.Logger, o.Registerer = s.log, s.registry
	if client != nil {
		shared := parts.Shared(s.cfg)
		shared.Logger, shared.Registerer = s.log, s.registry
		if s.shared, err = redis.New(client, shared); err != nil {
			return err
		}
		o.Shared = s.shared
	}
	if err = s.openAudit(&o); err != nil {
		return err
	}
	if s.cache, err = cache.New(o); err != nil {
		return err
	}
	s.onClose(s.cache.Close)
	if len(s.cfg.Chain.Nodes) == 0 { // no node will name the chain
		s.cache.SetNamespace(parts.Namespace(cmp.Or(s.cfg.Chain.ID, "none"), 0))
	}
	return nil
}

// openAudit has the cache tell an auditor of what it takes.
func (s *Service) openAudit(o *cache.Options) (err error) {
	if s.cfg.Audit.Share == 0 {
		return nil
	}
	s.auditor, err = audit.New(audit.Options{
		Share: s.cfg.Audit.Share, Timeout: s.cfg.Chain.Timeout, Logger: s.log, Registerer: s.registry,
		Epoch: func() int64 { return s.pool.Tip().Epoch },
	})
	if err == nil {
		o.Taken = s.auditor.Note
	}
	return err
}

func (s *Service) openPool(ctx context.Context) (err error) {
	s.cfg.Chain.Dialect = string(s.dialect(ctx))
	o := parts.Node(s.cfg)
	o.OnEpoch = func(id string, epoch int64) { s.setNamespace(parts.Namespace(id, epoch)) }
	o.Logger, o.Registerer = s.log, s.registry
	if s.shared != nil {
		o.Ledger = s.shared
	}
	if s.pool, err = node.New(o); err == nil {
		s.onClose(s.pool.Close)
	}
	return err
}

// setNamespace empties what is kept of another chain.
func (s *Service) setNamespace(chainID string) {
	s.cache.SetNamespace(chainID)
	if s.lane != nil {
		s.lane.Forget()
	}
}

// openStore opens the store where clients may list it, or it is filled.
func (s *Service) openStore(ctx context.Context) (err error) {
	if !parts.NeedsStore(s.cfg) {
		return nil
	}
	if s.store, err = parts.OpenStore(ctx, s.cfg, s.log, s.registry); err != nil {
		return err
	}
	s.onClose(s.store.Close)
	s.watch = collections.NewWatch(s.store, s.log, s.registry)
	if s.cfg.Index.Enabled {
		o := parts.Index(s.cfg)
		o.Store, o.Follow, o.Logger, o.Registerer, o.Tracing = s.store, true, s.log, s.registry, s.tracing
		s.indexer, err = indexer.New(o)
	}
	return err
}

func (s *Service) openMetadata(context.Context) (err error) {
	o := parts.Metadata(s.cfg)
	o.Store, o.Logger, o.Registerer = listing.MetadataStore(s.cache), s.log, s.registry
	if s.metadata, err = metadata.Open(s.cfg.Metadata.Provider, o); err == nil {
		s.onClose(s.metadata.Close)
	}
	return err
}

// openLane makes the fast lane before whatever has it forget.
func (s *Service) openLane(context.Context) error {
	if h := s.cfg.HTTP; h.FastLane {
		s.lane = lane.New(lane.Options{
			IdleTimeout: idleTimeout, ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout(h), Memory: s.cache, Registerer: s.registry,
		})
	}
	return nil
}

// webLane is the fast lane, nil for none.
func (s *Service) webLane() web.Lane {
	if s.lane == nil {
		return nil
	}
	return s.lane
}

// rpcLane is the fast lane of the RPC's listener.
func (s *Service) rpcLane() web.Lane {
	if s.lane == nil {
		return nil
	}
	return s.lane.For(rpc.Own)
}

// grpcLane is the fast lane of gRPC's listener.
func (s *Service) grpcLane() web.Lane {
	if s.lane == nil {
		return nil
	}
	return s.lane.ForCalls()
}

func (s *Service) openProxy(context.Context) (err error) {
	o := parts.Proxy(s.cfg)
	o.Undeclared = s.cfg.Chain.Dialect == string(node.Undetermined)
	o.Cache, o.Chain.Nodes, o.Web.Lane, o.ReadAhead.Room = s.cache, s.pool, s.webLane(), s.pool.Spare
	o.Web.Logger, o.Web.AccessLog, o.Web.Registerer, o.Web.Tracing = s.log, s.logs.Requests, s.registry, s.tracing
	o.Web.SharedLimits.Redis = s.redis
	if o.GRPC != nil && o.GRPC.State.GRPC {
		o.GRPC.Stream = s.pool.Stream
	}
	if s.store != nil && s.cfg.Collections.Auth != "closed" {
		o.Collections.Store = s.store
		o.Collections.Progress, o.Collections.Await, o.Collections.Counted = s.progress, s.watch.Await, s.watch.Counted
	}
	o.Web.SharedLimits.Namespace = s.cache.Namespace
	if s.metadata != nil {
		o.Collections.Metadata = s.metadata
	}
	s.proxy, err = proxy.New(o)
	return err
}
