package service

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/upstream/node"
)

const (
	askAgain    = time.Second         // between two looks at nodes that do not answer
	dialectLife = 30 * 24 * time.Hour // in Redis: longer than any entry lives
)

// dialect is the one that is configured, that the nodes are found to speak, or that they spoke to another
// replica while Redis was filled. Undetermined: none of them says so yet, and a guess could take the
// answers of one dialect for those of the other.
func (s *Service) dialect(ctx context.Context) node.Dialect {
	switch {
	case s.cfg.Chain.Dialect != "":
		return node.Dialect(s.cfg.Chain.Dialect)
	case len(s.cfg.Chain.Nodes) == 0:
		return node.Story
	}
	found, err := node.Detect(ctx, parts.Node(s.cfg).Endpoints)
	if err == nil {
		s.found(ctx, found)
		return found
	}
	if found = s.remembered(ctx); found != "" {
		s.log.Info("no node answers, and the dialect is the one that another replica has found", "dialect", found, "error", err)
		return found
	}
	s.log.Warn("no node says which dialect it speaks: until one does, nothing of the chain is served; chain.dialect sets it", "error", err)
	return node.Undetermined
}

// determine asks the nodes until one says which dialect it speaks, or ctx ends.
func (s *Service) determine(ctx context.Context) error {
	cfg := s.cfg
	if cfg.Chain.Dialect != string(node.Undetermined) {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askAgain):
		}
		found, err := node.Detect(ctx, parts.Node(cfg).Endpoints)
		if err != nil {
			continue
		}
		s.found(ctx, found)
		cfg.Chain.Dialect = string(found)
		if err := s.pool.Speak(found); err != nil {
			return err
		}
		if err := s.proxy.Speak(parts.Proxy(cfg).Cosmos); err != nil {
			return fmt.Errorf("the nodes speak %s: %w", found, err)
		}
		return nil
	}
}

// found tells of a dialect that a node was found to speak, and remembers it for replicas that start
// while none answers.
func (s *Service) found(ctx context.Context, d node.Dialect) {
	s.log.Info("nodes were asked which dialect they speak", "dialect", d)
	if s.redis == nil || s.cfg.Chain.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Redis.Timeout)
	defer cancel()
	if err := s.redis.Set(ctx, dialectKey(s.cfg.Chain.ID), string(d), dialectLife).Err(); err != nil {
		s.log.Debug("the dialect was not noted in Redis", "error", err)
	}
}

// remembered is what other replicas found, "" for nothing. Where no chain is configured, nothing of Redis
// can be served before a node answers anyway.
func (s *Service) remembered(ctx context.Context) node.Dialect {
	if s.redis == nil || s.cfg.Chain.ID == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Redis.Timeout)
	defer cancel()
	switch d := node.Dialect(s.redis.Get(ctx, dialectKey(s.cfg.Chain.ID)).Val()); d {
	case node.Story, node.Cosmos:
		return d
	}
	return ""
}

// dialectKey has the form of that of an epoch.
func dialectKey(chainID string) string {
	return "tipcache:1:dialect:{" + url.QueryEscape(chainID) + "}"
}
