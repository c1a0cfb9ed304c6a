package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
)

// degraded collects the outages of all upstreams as a [prometheus.Collector].
type degraded struct{ *Service }

func (d degraded) Describe(ch chan<- *prometheus.Desc) { upstream.Outages{}.Describe(ch) }

func (d degraded) Collect(ch chan<- prometheus.Metric) { d.allOutages().Collect(ch) }

// allOutages returns the outages of all upstreams, for /readyz and the metrics. It is not constant,
// because a reload changes the nodes.
func (s *Service) allOutages() upstream.Outages { return slices.Concat(s.pool.Outages(), s.outages) }

// watchOutages collects the outages of all upstreams except the nodes.
func (s *Service) watchOutages() {
	s.outages = s.metadata.Outages()
	if s.shared != nil {
		s.redisUse = upstream.NewOutage(s.log, "use of Redis")
		s.outages = append(s.outages, s.redisUse)
		s.outages = append(s.outages, s.shared.Outages()...)
	}
	if s.rpc != nil {
		s.eventsUse = upstream.NewOutage(s.log, "subscriptions to events")
		s.outages = append(s.outages, s.eventsUse)
	}
	if s.certificate != nil {
		s.certificateUse = upstream.NewOutage(slog.New(slog.DiscardHandler), "certificate") // the certificate logs why
		s.outages = append(s.outages, s.certificateUse)
	}
	if s.store != nil {
		s.outages = append(s.outages, s.store.Outage())
	}
	for _, f := range s.proxy.Fallbacks() {
		s.outages = append(s.outages, f.Outage)
	}
	if s.indexer != nil {
		s.outages = append(s.outages, s.indexer.Outages()...)
	}
	s.registry.MustRegister(degraded{s})
}

// checkRedisUse records whether the cache uses Redis. It does once the chain is known and Redis has answered which epoch of the
// chain all replicas are in. It reports whether Redis answers, but the cache does not use it yet.
func (s *Service) checkRedisUse(ctx context.Context) (soon bool) {
	if s.redisUse == nil {
		return false
	}
	if namespace := s.cache.Namespace(); namespace != "" {
		s.redisUse.End()
		s.shared.Probe(ctx, namespace)
		return false
	}
	err := errors.New("no node has named the chain yet; set chain.id")
	if s.pool.ChainID() != "" {
		if err = s.shared.Ping(ctx); err == nil { // even while the breaker of the cache is open
			_, err = s.shared.Agreement(ctx, s.pool.ChainID(), s.pool.Tip().Epoch)
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.redisUse.Record(fmt.Errorf("redis.url is set, but Redis is not used: %w", err))
	}
	return err == nil
}
