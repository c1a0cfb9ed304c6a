package config

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// Default returns the configuration for a node on its default ports on the same machine. Defaults of
// other packages come from their WithDefaults.
func Default() Config {
	posts := blocks.Posts{}.WithDefaults()
	c := Config{
		Listen: "127.0.0.1:8080",
		Admin:  "127.0.0.1:8081",
		Chain: Chain{
			Nodes:    []string{"http://127.0.0.1:1317"},
			Comet:    []string{"http://127.0.0.1:26657"},
			PostRate: fmt.Sprintf("%v/s burst %d", posts.Rate, posts.Burst), MaxTxBytes: Bytes(posts.MaxBody),
			Shape: story.Documented, Auth: "none", UnknownPaths: "pass",
			Settings: node.DefaultSettings(),
		},
		Classes:     blocks.DefaultClasses(),
		Cache:       Cache{Memory: Auto},
		Redis:       redis.DefaultSettings(),
		Collections: Collections{Store: "sqlite:tipcache.db", Auth: "closed", Rate: "0"},
		Index:       Index{EVM: []string{"http://127.0.0.1:8545"}, Network: []string{"story"}},
		Metadata:    metadata.DefaultSettings(),
		HTTP: HTTP{
			Rate: "0", ProxyProtocol: "off", Settings: web.DefaultSettings(), FastLane: true,
			Connections: listener.DefaultSettings(), IdleTimeout: 620 * time.Second, Streams: stream.DefaultSettings(),
		},
		RPC:     RPC{Settings: rpc.DefaultSettings()},
		Log:     Log{Level: "info", Format: "auto", Access: "true"},
		Tracing: Tracing{Ratio: 0.01},
	}
	c.derive()
	return c
}

// derive sets the timeouts that follow from others: a flight reads a node twice, a request waits for a
// flight, and a drain outlasts a request.
func (c *Config) derive() {
	c.Cache.Flight = max(cache.Options{}.WithDefaults().FlightTimeout, 2*c.Chain.Timeout)
	c.HTTP.RequestTimeout = max(web.DefaultSettings().RequestTimeout, 3*c.Chain.Timeout)
	c.HTTP.Drain = c.HTTP.RequestTimeout + 5*time.Second
}

// CacheOptions returns the options of the cache, without the shared store.
func (c Config) CacheOptions() cache.Options {
	return cache.Options{
		MemoryBytes:   c.CacheMemory(memlimit.FromCgroup),
		FlightTimeout: c.Cache.Flight,
		OriginTimeout: c.Chain.Timeout,
	}
}

// CacheMemory returns the configured size, or one that fits the container.
func (c Config) CacheMemory(container memlimit.Provider) int64 {
	if configured := c.Cache.Memory; configured != Auto {
		return int64(configured)
	}
	return heap.ForAnswers(container)
}

// NodeOptions returns the options of the pool of nodes, without the ledger of epochs.
func (c Config) NodeOptions() node.Options {
	o := node.Options{
		Settings:     c.Chain.Settings,
		Dialect:      node.Dialect(c.Chain.Dialect),
		ChainID:      c.Chain.ID,
		VerbatimKeys: c.serves(story.Node),
	}
	for i, line := range c.Chain.Nodes {
		e, _ := parseNode(line) // validated
		if comet := c.Chain.Comet[i]; comet != "none" {
			e.Comet = comet
		}
		if i < len(c.Chain.GRPC) && c.Chain.GRPC[i] != "none" {
			e.GRPC = c.Chain.GRPC[i]
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	return o
}

// NeedsStore reports whether serve opens the collection store, to list or to fill it.
func (c Config) NeedsStore() bool { return c.Collections.Auth != "closed" || c.Index.Enabled }

// ServesNothing reports whether serve has neither nodes nor a collection store.
func (c Config) ServesNothing() bool { return len(c.Chain.Nodes) == 0 && !c.NeedsStore() }

// IndexOptions returns the options of the indexer, without the store.
func (c Config) IndexOptions() indexer.Options {
	network, _ := indexer.ParseNetwork(c.Index.Network...) // validated
	o := indexer.Options{Settings: c.Index.Settings, Network: network}
	o.Endpoints = c.Index.EVM
	return o
}

// ProxyOptions returns the options of the proxy, without the cache and the upstreams.
func (c Config) ProxyOptions() proxy.Options {
	public, pages := c.HTTP, c.Collections
	paths, methods := cosmos.Split(c.ownRows())
	grpcState := state.Options{GRPC: c.ReadsGRPC()}
	posts, _ := ParseRate(c.Chain.PostRate) // both validated
	logged, _ := parseShare(c.Log.Access)
	o := proxy.Options{
		Dialect: node.Dialect(c.Chain.Dialect),
		Web: web.Options{
			Settings:     public.Settings,
			LargestBody:  grpc.LargestBody(int64(c.Chain.MaxTxBytes)),
			PublicURL:    pages.PublicURL,
			Keys:         c.ClientKeys(),
			Limits:       c.Limits(),
			SharedLimits: limits.Shared{Timeout: c.Redis.Timeout},
			Record:       record.Options{OnlyFailures: logged == 0, SkipLog: 1 - logged},
		},
		Chain:   blocks.Options{Classes: c.Classes, Auth: c.Chain.Auth == "keys"},
		Routes:  c.OwnPolicies(),
		Rows:    paths,
		Methods: methods,
		Story: story.Options{
			Shape:         c.Chain.Shape,
			RefuseUnknown: c.Chain.UnknownPaths == "refuse" || len(c.Chain.Nodes) == 0,
		},
		Collections: &listing.Options{
			NoAuth: pages.Auth == "none",
			Policy: pages.Policy,
		},
		Streams:   stream.Options{Settings: public.Streams, Write: public.RequestTimeout},
		Posts:     blocks.Posts{Rate: float64(posts.Requests) / posts.Per.Seconds(), Burst: posts.Burst, MaxBody: int64(c.Chain.MaxTxBytes)},
		GRPC:      &grpc.Options{Settings: c.GRPC.Settings, State: grpcState},
		Listeners: docs.Listeners{RPC: c.RPC.Listen, GRPC: c.GRPC.Listen, TLS: c.HTTP.TLS.Cert != ""},
		Mounts:    c.HTTP.Mounts,
	}
	if c.RPC.Listen != "" {
		o.RPC = &rpc.Options{Settings: c.RPC.Settings, State: grpcState}
	}
	return o
}

// ownRows returns the rows that the operator added.
func (c Config) ownRows() (rows []dialect.Row) {
	for _, line := range c.Chain.Rows {
		if row, err := cosmos.ParseRow(line); err == nil { // validated
			rows = append(rows, row)
		}
	}
	return rows
}

// ClientKeys returns the API keys of all clients.
func (c Config) ClientKeys() (keys []limits.Key) {
	for _, line := range c.Collections.Keys {
		key, _ := ParseAPIKey(line) // validated
		keys = append(keys, key)
	}
	return keys
}

// Limits returns the rates of keys and addresses, the trusted proxies and the access rules.
func (c Config) Limits() limits.Limits {
	key, _ := ParseRate(c.Collections.Rate) // all validated
	address, _ := ParseRate(c.HTTP.Rate)
	l := limits.Limits{Key: key, Address: address}
	for _, network := range c.HTTP.TrustedProxies {
		prefix, _ := ParseNetwork(network)
		l.TrustedProxies = append(l.TrustedProxies, prefix)
	}
	for _, line := range c.Access {
		rule, _ := ParseRule(line)
		l.Access = append(l.Access, rule)
	}
	return l
}

// OwnPolicies returns the policies of the routes that have settings.
func (c Config) OwnPolicies() map[string]cache.Policy {
	own := map[string]cache.Policy{}
	for name := range c.Routes {
		own[name] = c.policyOf(name)
	}
	return own
}

// rows returns the rows of the dialects that the nodes may have.
func (c Config) rows() (all []dialect.Row) {
	if c.Chain.Dialect != string(node.Cosmos) {
		paths, _ := cosmos.Split(c.ownRows())
		all = story.Rows(paths)
	}
	if c.Chain.Dialect != string(node.Story) {
		all = append(all, cosmos.Rows(c.ownRows())...)
	}
	return all
}

// policyOf returns the policy of a route. Settings that are not set come from its class.
func (c Config) policyOf(name string) cache.Policy {
	base := c.Classes.Live
	rows := c.rows()
	if i := slices.IndexFunc(rows, func(row dialect.Row) bool { return row.Name == name }); i >= 0 && rows[i].Class == blocks.Params {
		base = c.Classes.Params
	}
	return c.Routes[name].Over(base)
}

// Over returns base with the keys that r sets.
func (r Route) Over(base cache.Policy) cache.Policy {
	own, all := reflect.ValueOf(r), reflect.ValueOf(&base).Elem()
	for i := range own.NumField() {
		if f := own.Field(i); !f.IsNil() {
			all.FieldByName(own.Type().Field(i).Name).Set(f.Elem())
		}
	}
	return base
}
