package service

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// An Inspection is what the service would report about its nodes and its provider. Slices have an item for each node.
type Inspection struct {
	Health
	Dialect  string        // in which the nodes were read
	Servers  []node.Server // their REST servers
	Methods  [][]string    // the methods that their CometBFT lists
	Provider error         // why the provider does not describe collections; nil if it does, or without a provider
}

// Inspect returns what /readyz of the service would say. It builds the parts without listeners, store, indexer and Redis, and so
// writes nothing. It runs them until the state of every node is known and the provider has answered, or until ctx ends.
func Inspect(ctx context.Context, cfg config.Config) (found Inspection, err error) {
	cfg.Redis.URL, cfg.Metadata.Budget = "none", providerBudget
	s := newService(cfg, parts.NewLogs(io.Discard, cfg.Log), Reloading{})
	defer func() { err = errors.Join(err, s.Close()) }()
	endpoints := cfg.NodeOptions().Endpoints
	found = Inspection{Servers: make([]node.Server, len(endpoints)), Methods: make([][]string, len(endpoints))}
	var asking sync.WaitGroup
	for i, e := range endpoints {
		asking.Go(func() { found.Servers[i], _ = node.Recognize(ctx, e.REST, e.Headers) }) // the pool finds out why it does not answer
	}
	asking.Wait()
	for _, server := range found.Servers {
		s.cfg.Chain.Dialect = cmp.Or(s.cfg.Chain.Dialect, string(server.API.Dialect()))
	}
	found.Dialect = cmp.Or(s.cfg.Chain.Dialect, string(node.Story))
	s.cfg.Chain.Dialect = found.Dialect
	if err := s.open(ctx, s.openTracing, s.openCache, s.openPool, s.openMetadata, s.openProxy); err != nil {
		return found, err
	}
	s.watchOutages()
	go func() { _ = s.pool.Run(ctx) }() // Close ends it
	asking.Go(func() { found.Provider = s.askProvider(ctx) })
	for !s.nodesKnown(&found) && upstream.Sleep(ctx, pollInterval) == nil {
	}
	clients := s.pool.CometBFT()
	for i, e := range endpoints {
		if e.Comet != "" {
			found.Methods[i], clients = clients[0].Methods(ctx), clients[1:]
		}
	}
	asking.Wait()
	found.Health = s.state(ctx, nil)
	return found, nil
}

// noContract is an address without a contract, which every provider can look up.
const noContract = "0x0000000000000000000000000000000000000001"

// providerBudget is how long the provider may take to describe a contract. It is below the timeout of a request.
const providerBudget = 4900 * time.Millisecond

// pollInterval is how often Inspect looks at the state of the nodes.
const pollInterval = 20 * time.Millisecond

// askProvider returns why the provider does not describe collections.
func (s *Service) askProvider(ctx context.Context) error {
	if _, degraded := s.metadata.Lookup(ctx, []string{noContract}); !degraded {
		return nil
	}
	_, cause := s.metadata.State()
	return cmp.Or(cause, context.DeadlineExceeded)
}

// nodesKnown reports whether the state of all nodes is known. Of a node whose REST server is none, only CometBFT is waited for.
func (s *Service) nodesKnown(found *Inspection) bool {
	for i, h := range s.pool.Health() {
		known := h.Known()
		if found.Servers[i].Mismatch(node.StoryREST, node.CosmosREST) != nil {
			known = !h.Unseen
		}
		if !known {
			return false
		}
	}
	return true
}
