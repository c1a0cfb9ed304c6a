package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// What follows translates the configuration into each package's options; the
// parts they are joined by are set where they are built.

func cacheOptions(cfg config.Config) cache.Options {
	return cache.Options{
		MemoryBytes:   cacheMemory(cfg.Cache.Memory, memlimit.FromCgroup),
		FlightTimeout: cfg.Cache.Flight,
		Patience:      cfg.Cache.Patience,
		MaxWaiters:    cfg.Cache.Waiters,
	}
}

// cacheMemory is what is configured, or what fits the container.
func cacheMemory(configured config.Bytes, container memlimit.Provider) int64 {
	if configured != config.Auto {
		return int64(configured)
	}
	return heap.ForAnswers(container)
}

func sharedOptions(cfg config.Config) redis.Options {
	return redis.Options{Timeout: cfg.Redis.Timeout, Lease: cfg.Cache.Lease, SealKey: []byte(cfg.Redis.SealKey)}
}

func nodeOptions(cfg config.Config) node.Options {
	c := cfg.Chain
	o := node.Options{
		Dialect:       node.Dialect(c.Dialect),
		ChainID:       c.ID,
		Timeout:       c.Timeout,
		MaxBody:       int64(c.MaxBody),
		InFlight:      c.InFlight,
		Scans:         c.Scans,
		Queue:         c.Queue,
		Hedge:         c.Hedge,
		BlockInterval: c.BlockInterval,
		MaxBlockAge:   c.MaxBlockAge,
		RollbackAfter: c.RollbackAfter,
	}
	for i, rest := range c.Nodes {
		comet := c.Comet[i]
		if comet == "none" {
			comet = ""
		}
		o.Endpoints = append(o.Endpoints, node.Endpoint{REST: rest, Comet: comet})
	}
	return o
}

// A ledger is the shared store as the nodes' pool knows it.
type ledger struct{ *redis.Store }

// Agreement implements node.Ledger.
func (l ledger) Agreement(ctx context.Context, chainID string, epoch int64) (node.Agreement, error) {
	a, err := l.Store.Agreement(ctx, chainID, epoch)
	return node.Agreement(a), err
}

// namespace keeps chains apart, and the epochs of one. The first epoch is told
// only where the chain's own name could be taken for one.
func namespace(chainID string, epoch int64) string {
	if epoch == 0 && !strings.Contains(chainID, "#") {
		return chainID
	}
	return chainID + "#" + strconv.FormatInt(epoch, 10)
}

// openStore opens the collection store for serve and import alike.
func openStore(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) (*collections.Store, error) {
	return drivers.Open(ctx, cfg.Collections.Store, collections.Options{
		Timeout:    cfg.Collections.Timeout,
		APIKey:     cfg.Collections.StoreKey,
		Logger:     log,
		Registerer: registry,
	})
}

func metadataOptions(cfg config.Config) metadata.Options {
	m := cfg.Metadata
	return metadata.Options{Chain: m.Network, Budget: m.Budget, Timeout: m.Timeout, Batch: m.Batch}
}

func proxyOptions(cfg config.Config) proxy.Options {
	return proxy.Options{Web: webOptions(cfg), Chain: chainOptions(cfg), Cosmos: cosmosOptions(cfg), Collections: collectionsOptions(cfg), Streams: streamOptions(cfg)}
}

func streamOptions(cfg config.Config) stream.Options {
	return stream.Options{Max: cfg.HTTP.MaxStreams, PerClient: cfg.HTTP.ClientStreams, Write: cfg.HTTP.Request}
}

func webOptions(cfg config.Config) web.Options {
	return web.Options{
		MaxURL:         cfg.HTTP.MaxURL,
		MaxHeader:      int(cfg.HTTP.MaxHeader),
		RequestTimeout: cfg.HTTP.Request,
		PublicURL:      cfg.Collections.PublicURL,
		CORSOrigins:    cfg.HTTP.CORSOrigins,
		AllowNoCache:   cfg.HTTP.AllowNoCache,
		Keys:           apiKeys(cfg),
		Limits:         rateLimits(cfg),
		SharedLimits:   limits.Shared{Timeout: cfg.Redis.Timeout},
		OnlyFailures:   !cfg.Log.Access,
		SkipLog:        1 - cfg.Log.Sample,
	}
}

func chainOptions(cfg config.Config) chain.Options {
	return chain.Options{
		Classes:       classes(cfg),
		Routes:        ownPolicies(cfg),
		Shape:         chain.Shape(cfg.Chain.Shape),
		Auth:          cfg.Chain.Auth == "keys",
		MaxPageLimit:  cfg.Chain.MaxPageLimit,
		MinHeightWait: cfg.Chain.MinHeightWait,
		Patience:      cfg.Cache.Patience,
	}
}

// cosmosOptions are nil in the dialect of Story.
func cosmosOptions(cfg config.Config) *proxy.Cosmos {
	if cfg.Chain.Dialect != string(node.Cosmos) {
		return nil
	}
	rate, _ := config.ParseRate(cfg.Chain.PostRate) // validated
	return &proxy.Cosmos{Rows: ownRows(cfg), Posts: cosmos.Posts{
		MaxBody: int64(cfg.Chain.MaxPost), Burst: rate.Burst, Rate: float64(rate.Requests) / rate.Per.Seconds(),
	}}
}

// ownRows are the routes that the operator has added.
func ownRows(cfg config.Config) (rows []cosmos.Row) {
	for _, line := range cfg.Chain.Rows {
		if row, err := cosmos.ParseRow(line); err == nil { // validated
			rows = append(rows, row)
		}
	}
	return rows
}

// classOf is the class of a route in the dialect that is set, or in any.
func classOf(cfg config.Config, name string) (class string, ok bool) {
	if cfg.Chain.Dialect != string(node.Cosmos) {
		if class, ok = chain.RouteClass(name); ok || cfg.Chain.Dialect != "" {
			return class, ok
		}
	}
	row, ok := cosmos.RowClass(ownRows(cfg), name)
	return string(row), ok
}

func classes(cfg config.Config) chain.Classes {
	return chain.Classes{
		Live:     policy(cfg.Classes.Live),
		Params:   policy(cfg.Classes.Params),
		Pinned:   cache.Policy{Immutable: true, Keep: cfg.Classes.Pinned},
		Negative: cfg.Classes.Negative,
	}
}

// ownPolicies are those of single routes.
func ownPolicies(cfg config.Config) map[string]cache.Policy {
	own := map[string]cache.Policy{}
	for name := range cfg.Routes {
		own[name] = policy(routeClass(cfg, name))
	}
	return own
}

// routeClass is what is configured for a route, over its class.
func routeClass(cfg config.Config, name string) config.Class {
	base := cfg.Classes.Live
	if class, _ := classOf(cfg, name); class == "params" {
		base = cfg.Classes.Params
	}
	return cfg.Routes[name].Over(base)
}

// validateRest checks what the configuration cannot know: the route table, and
// what is in files.
func validateRest(cfg config.Config) error {
	return errors.Join(validateRoutes(cfg), validateTLS(cfg.HTTP.TLS))
}

func validateTLS(c config.TLS) error {
	if c.Cert == "" || c.Key == "" {
		return nil
	}
	if _, err := listener.NewCertificate(c.Cert, c.Key, nil); err != nil {
		return config.Problem{Key: "http.tls.cert", Text: err.Error()}
	}
	return nil
}

// validateRoutes checks the names of routes, and what their classes come to.
func validateRoutes(cfg config.Config) error {
	var problems []error
	for i, line := range cfg.Chain.Rows {
		if _, err := cosmos.ParseRow(line); err != nil {
			problems = append(problems, config.Problem{Key: fmt.Sprintf("chain.rows[%d]", i), Text: err.Error()})
		}
	}
	for name := range cfg.Routes {
		if _, ok := classOf(cfg, name); !ok {
			problems = append(problems, config.Problem{Key: "routes." + name, Text: "no such route"})
			continue
		}
		problems = append(problems, routeClass(cfg, name).Validate("routes."+name))
	}
	return errors.Join(problems...)
}

func collectionsOptions(cfg config.Config) *listing.Options {
	c := cfg.Collections
	return &listing.Options{
		NoAuth:        c.Auth == "none",
		MinHeightWait: cfg.Chain.MinHeightWait,
		Policy:        cache.Policy{Fresh: c.Fresh, Stale: c.Stale, StaleIfError: c.OnError, Keep: c.OnError},
	}
}

func apiKeys(cfg config.Config) (keys []limits.Key) {
	for _, line := range cfg.Collections.Keys {
		key, _ := config.ParseAPIKey(line) // validated
		keys = append(keys, limits.Key{Name: key.Name, SHA256: key.SHA256, Rate: limits.Rate(key.Rate)})
	}
	return keys
}

func rateLimits(cfg config.Config) limits.Limits {
	key, _ := config.ParseRate(cfg.Collections.Rate) // all validated
	address, _ := config.ParseRate(cfg.HTTP.Rate)
	l := limits.Limits{Key: limits.Rate(key), Address: limits.Rate(address)}
	for _, network := range cfg.HTTP.TrustedProxies {
		prefix, _ := config.ParseNetwork(network)
		l.TrustedProxies = append(l.TrustedProxies, prefix)
	}
	return l
}

func policy(c config.Class) cache.Policy {
	return cache.Policy{
		FreshBlocks:  *c.FreshBlocks,
		StaleBlocks:  *c.StaleBlocks,
		ErrorBlocks:  *c.ErrorBlocks,
		Fresh:        *c.Fresh,
		Stale:        *c.Stale,
		StaleIfError: *c.StaleIfError,
		Keep:         *c.StaleIfError + time.Minute,
	}
}
