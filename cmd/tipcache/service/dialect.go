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

// dialect returns the configured dialect. Without one it returns the dialect in which a node answers, or
// else the one that another replica stored in Redis. It returns Undetermined if none is known: a guess could misread responses.
func (s *Service) dialect(ctx context.Context) node.Dialect {
	switch {
	case s.cfg.Chain.Dialect != "":
		return node.Dialect(s.cfg.Chain.Dialect)
	case len(s.cfg.Chain.Nodes) == 0:
		return node.Story
	}
	found, err := node.Detect(ctx, s.cfg.NodeOptions().Endpoints)
	if err == nil {
		s.recordDialect(ctx, found)
		return found
	}
	s.dialectUnknown = true
	if found = s.storedDialect(ctx); found != "" {
		s.log.Info("no node answers, using the dialect that another replica found", "dialect", found, "error", err)
		return found
	}
	s.log.Warn("dialect unknown because no node answers, the chain is not served until one does (or set chain.dialect)", "error", err)
	return node.Undetermined
}

// awaitDialect queries the nodes until one answers in a known dialect, or ctx ends. It returns an error if
// the dialect differs from the one in Redis, because the responses so far were wrong.
func (s *Service) awaitDialect(ctx context.Context) error {
	if !s.dialectUnknown {
		return nil
	}
	for upstream.Sleep(ctx, detectInterval) == nil {
		found, err := node.Detect(ctx, s.pool.Configured())
		if err != nil {
			continue
		}
		s.recordDialect(ctx, found)
		switch node.Dialect(s.cfg.Chain.Dialect) {
		case found:
			return nil
		case node.Undetermined:
			return s.serveDialect(found)
		default:
			return fmt.Errorf("the nodes speak %s, not %s as Redis says: restart, or set chain.dialect", found, s.cfg.Chain.Dialect)
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

// recordDialect logs the dialect of a node and stores it in Redis, for replicas that start while no node
// answers.
func (s *Service) recordDialect(ctx context.Context, d node.Dialect) {
	s.log.Info("detected the dialect of the nodes", "dialect", d)
	if s.shared == nil || s.cfg.Chain.ID == "" {
		return
	}
	if err := s.shared.SaveDialect(ctx, s.cfg.Chain.ID, string(d)); err != nil {
		s.log.Debug("storing the dialect in redis failed", "error", err)
	}
}

// storedDialect returns the dialect that another replica stored, or "". Without chain.id, Redis is not used
// before a node answers.
func (s *Service) storedDialect(ctx context.Context) node.Dialect {
	if s.shared == nil || s.cfg.Chain.ID == "" {
		return ""
	}
	noted, _ := s.shared.Dialect(ctx, s.cfg.Chain.ID) // the store counts errors
	switch d := node.Dialect(noted); d {
	case node.Story, node.Cosmos:
		return d
	}
	return ""
}
