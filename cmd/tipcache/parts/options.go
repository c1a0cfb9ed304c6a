// Package parts makes, of a valid configuration, what the commands are built of:
// each package's options (options.go, proxy.go, classes.go), the client of Redis
// (redis.go), the collection store, and the logs (logs.go). What joins parts to
// each other is set where they are built.
package parts

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// Cache makes the options of the cache, without the shared store.
func Cache(cfg config.Config) cache.Options {
	return cache.Options{
		MemoryBytes:   CacheMemory(cfg, memlimit.FromCgroup),
		FlightTimeout: cfg.Cache.Flight,
		OriginTimeout: cfg.Chain.Timeout,
	}
}

// CacheMemory is the size that is configured, or one that fits the container.
func CacheMemory(cfg config.Config, container memlimit.Provider) int64 {
	if configured := cfg.Cache.Memory; configured != config.Auto {
		return int64(configured)
	}
	return heap.ForAnswers(container)
}

// Shared makes the options of the store in Redis.
func Shared(cfg config.Config) redis.Options {
	return redis.Options{Timeout: cfg.Redis.Timeout, SealKey: []byte(cfg.Redis.SealKey)}
}

// Node makes the options of the nodes' pool, without the ledger of epochs.
func Node(cfg config.Config) node.Options {
	c := cfg.Chain
	o := node.Options{
		Dialect:       node.Dialect(c.Dialect),
		ChainID:       c.ID,
		Timeout:       c.Timeout,
		InFlight:      c.InFlight,
		MaxBlockAge:   c.MaxBlockAge,
		RollbackAfter: c.RollbackAfter,
	}
	for i, rest := range c.Nodes {
		comet := c.Comet[i]
		if comet == "none" {
			comet = ""
		}
		e := node.Endpoint{REST: rest, Comet: comet}
		if i < len(c.GRPC) && c.GRPC[i] != "none" {
			e.GRPC = c.GRPC[i]
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	return o
}

// Namespace keeps chains apart, and the epochs of one chain. The first epoch has no
// suffix, unless the name of the chain itself has a #.
func Namespace(chainID string, epoch int64) string {
	if epoch == 0 && !strings.Contains(chainID, "#") {
		return chainID
	}
	return chainID + "#" + strconv.FormatInt(epoch, 10)
}

// NeedsStore tells whether serve opens the collection store: where clients may list
// it, or it is filled.
func NeedsStore(cfg config.Config) bool { return cfg.Collections.Auth != "closed" || cfg.Index.Enabled }

// OpenStore opens the collection store for serve and import alike.
func OpenStore(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) (*collections.Store, error) {
	o := Collections(cfg)
	o.Logger, o.Registerer = log, registry
	return drivers.Open(ctx, cfg.Collections.Store, o)
}

// Collections makes the options of the collection store, without its log and metrics.
func Collections(cfg config.Config) collections.Options {
	return collections.Options{Timeout: cfg.Collections.Timeout, Connections: cfg.Collections.Connections, APIKey: cfg.Collections.StoreKey}
}

// Metadata makes the options of the metadata service, without the store of records.
func Metadata(cfg config.Config) metadata.Options {
	m := cfg.Metadata
	return metadata.Options{Chain: m.Network, Budget: m.Budget, Timeout: m.Timeout}
}

// Index makes the options of the indexer, without the store.
func Index(cfg config.Config) indexer.Options {
	c := cfg.Index
	network, public := indexer.Networks()[c.Network]
	if !public {
		network.ChainID = c.Contracts.ChainID
		network.Registry, _ = indexer.ParseAddress(c.Contracts.Registry) // validated
		network.Licensing, _ = indexer.ParseAddress(c.Contracts.Licensing)
		network.Disputes, _ = indexer.ParseAddress(c.Contracts.Disputes)
	}
	return indexer.Options{
		Endpoints: c.EVM,
		Network:   network,
		From:      c.From,
		Window:    c.Window,
		Poll:      c.Poll,
	}
}

// Host is the part of a URL that may be shown: the rest may hold a secret.
func Host(raw string) string {
	_, at, ok := strings.Cut(raw, "://")
	if u, err := url.Parse("any://" + at); ok && err == nil {
		return cmp.Or(u.Host, "local")
	}
	return "?"
}
