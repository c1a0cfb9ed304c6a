package service

import (
	"errors"
	"slices"

	"github.com/tipcache/tipcache/upstream"
)

// watchOutages collects the outages of all upstreams for /readyz and the metrics.
func (s *Service) watchOutages() {
	s.outages = slices.Concat(s.pool.Outages(), s.metadata.Outages())
	if s.shared != nil {
		s.redisUse = upstream.NewOutage(s.log, "use of Redis")
		s.outages = append(s.outages, s.redisUse)
		s.outages = append(s.outages, s.shared.Outages()...)
	}
	if s.rpc != nil {
		s.eventsUse = upstream.NewOutage(s.log, "subscriptions to events")
		s.outages = append(s.outages, s.eventsUse)
	}
	if s.store != nil {
		s.outages = append(s.outages, s.store.Outage())
	}
	if s.indexer != nil {
		s.outages = append(s.outages, s.indexer.Outages()...)
	}
	s.registry.MustRegister(s.outages)
}

var errUnusedRedis = errors.New("redis.url is set, but Redis is not used: no node has named the chain yet; set chain.id")

// unusedRedis returns why a configured Redis is not used, nil if it is used.
func (s *Service) unusedRedis() error {
	if s.cache.Namespace() == "" {
		return errUnusedRedis
	}
	return nil
}
