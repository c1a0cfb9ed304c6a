package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// detectInterval is the pause between attempts to detect the dialect.
const detectInterval = time.Second

// dialect returns the configured dialect, or else the one in which a node answers. It returns Undetermined if none does: a
// guess could misread responses.
func (s *Service) dialect(ctx context.Context) node.Dialect {
	switch {
	case s.cfg.Chain.Dialect != "":
		return node.Dialect(s.cfg.Chain.Dialect)
	case len(s.cfg.Chain.Nodes) == 0:
		return node.Story
	}
	found, err := s.detect(ctx, s.cfg.NodeOptions().Endpoints)
	if err != nil {
		s.log.Warn("dialect unknown because no node answers, the chain is not served until one does (or set chain.dialect)", "error", err)
		return node.Undetermined
	}
	return found
}

func (s *Service) detect(ctx context.Context, endpoints []node.Endpoint) (node.Dialect, error) {
	found, err := node.Detect(ctx, endpoints)
	if err == nil {
		s.log.Info("detected the dialect of the nodes", "dialect", found)
	}
	return found, err
}

// awaitDialect queries the nodes until their dialect is known, or ctx ends.
func (s *Service) awaitDialect(ctx context.Context) error {
	for !s.pool.HasDialect() && upstream.Sleep(ctx, detectInterval) == nil {
		if found, err := s.detect(ctx, s.pool.Configured()); err == nil {
			return s.serveDialect(found)
		}
	}
	return nil
}

// serveDialect starts serving the chain in the detected dialect. It reads the settings of routes again,
// because a name may be a different route in each dialect.
func (s *Service) serveDialect(found node.Dialect) error {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	s.cfg.Chain.Dialect = string(found)
	cfg := s.inDialect(s.running)
	if err := s.pool.SetDialect(found); err != nil {
		return err
	}
	err := errors.Join(cfg.CheckRoutes(), s.proxy.SetDialect(found, cfg.Policies(), cfg.OwnPolicies()))
	if err != nil {
		return fmt.Errorf("the nodes speak %s: %w", found, err)
	}
	return nil
}

// inDialect returns a configuration with the dialect of the nodes.
func (s *Service) inDialect(cfg config.Config) config.Config {
	cfg.Chain.Dialect = s.cfg.Chain.Dialect
	return cfg
}
