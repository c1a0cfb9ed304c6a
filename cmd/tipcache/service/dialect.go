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

// askAgain is the time between two requests to nodes that do not answer.
const askAgain = time.Second

// learnDialect puts the dialect into the configuration that the parts are made of.
func (s *Service) learnDialect(ctx context.Context) error {
	s.cfg.Chain.Dialect = string(s.dialect(ctx))
	return nil
}

// dialect is the configured one, else the one that a node answers in, else the one that another replica
// has noted in Redis. It is Undetermined while none of these is known: a guess could take the answers of
// one dialect for those of the other.
func (s *Service) dialect(ctx context.Context) node.Dialect {
	switch {
	case s.cfg.Chain.Dialect != "":
		return node.Dialect(s.cfg.Chain.Dialect)
	case len(s.cfg.Chain.Nodes) == 0:
		return node.Story
	}
	found, err := node.Detect(ctx, s.cfg.NodeOptions().Endpoints)
	if err == nil {
		s.found(ctx, found)
		return found
	}
	s.undetermined = true
	if found = s.remembered(ctx); found != "" {
		s.log.Info("no node answers, using the dialect that another replica found", "dialect", found, "error", err)
		return found
	}
	s.log.Warn("dialect unknown because no node answers, the chain is not served until one does (or set chain.dialect)", "error", err)
	return node.Undetermined
}

// determine asks the nodes until one says which dialect it speaks, or ctx ends. A dialect that differs
// from the one noted in Redis is an error: the answers served so far are wrong.
func (s *Service) determine(ctx context.Context) error {
	if !s.undetermined {
		return nil
	}
	for upstream.Sleep(ctx, askAgain) == nil {
		found, err := node.Detect(ctx, s.cfg.NodeOptions().Endpoints)
		if err != nil {
			continue
		}
		s.found(ctx, found)
		switch node.Dialect(s.cfg.Chain.Dialect) {
		case found:
			return nil
		case node.Undetermined:
			return s.speak(found)
		default:
			return fmt.Errorf("the nodes speak %s, not %s as is noted in Redis: start again, or set chain.dialect", found, s.cfg.Chain.Dialect)
		}
	}
	return nil
}

// speak has the chain served in the dialect that its nodes were found to speak. What
// was read of the routes while that was not known is read anew: a name may be another
// route in each dialect.
func (s *Service) speak(found node.Dialect) error {
	s.force.Lock()
	defer s.force.Unlock()
	cfg := s.cfg
	if s.reloader != nil {
		cfg = s.reloader.running
	}
	s.cfg.Chain.Dialect = string(found)
	cfg = s.inDialect(cfg)
	if err := s.pool.SetDialect(found); err != nil {
		return err
	}
	err := errors.Join(cfg.CheckRoutes(), s.proxy.SetDialect(cfg.ProxyOptions().Cosmos, cfg.Policies(), cfg.OwnPolicies()))
	if err != nil {
		return fmt.Errorf("the nodes speak %s: %w", found, err)
	}
	return nil
}

// inDialect is a configuration as it is in force: in the dialect that the nodes speak.
func (s *Service) inDialect(cfg config.Config) config.Config {
	cfg.Chain.Dialect = s.cfg.Chain.Dialect
	return cfg
}

// found logs the dialect that a node speaks, and notes it in Redis for replicas that start while no
// node answers.
func (s *Service) found(ctx context.Context, d node.Dialect) {
	s.log.Info("detected the dialect of the nodes", "dialect", d)
	if s.shared == nil || s.cfg.Chain.ID == "" {
		return
	}
	if err := s.shared.NoteDialect(ctx, s.cfg.Chain.ID, string(d)); err != nil {
		s.log.Debug("storing the dialect in redis failed", "error", err)
	}
}

// remembered is the dialect that another replica has noted, or "". Without a configured chain nothing can
// be served from Redis before a node answers, so none is looked for.
func (s *Service) remembered(ctx context.Context) node.Dialect {
	if s.shared == nil || s.cfg.Chain.ID == "" {
		return ""
	}
	noted, _ := s.shared.Dialect(ctx, s.cfg.Chain.ID) // the store counts errors; one means that no dialect is known
	switch d := node.Dialect(noted); d {
	case node.Story, node.Cosmos:
		return d
	}
	return ""
}
