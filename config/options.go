package config

import (
	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/node"
)

// CacheOptions returns the options of the cache, without the shared store.
func (c Config) CacheOptions() cache.Options {
	return cache.Options{MemoryBytes: c.CacheMemory(memlimit.FromCgroup), FlightTimeout: c.Cache.Flight, OriginTimeout: c.Chain.Timeout}
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
	return indexer.Options{Settings: c.Index.Settings, Options: evm.Options{Endpoints: c.Index.EVM}, Network: network}
}

// ProxyOptions returns the options of the proxy, without the cache and the upstreams.
func (c Config) ProxyOptions() proxy.Options {
	paths, methods := cosmos.Split(c.ownRows())
	grpcState := state.Options{GRPC: c.ReadsGRPC()}
	posts, _ := ParseRate(c.Chain.PostRate) // both validated
	logged, _ := parseShare(c.Log.Access)
	o := proxy.Options{
		Dialect: node.Dialect(c.Chain.Dialect),
		Web: web.Options{
			Settings:    c.HTTP.Settings,
			LargestBody: grpc.LargestBody(int64(c.Chain.MaxTxBytes)),
			PublicURL:   c.Collections.PublicURL,
			Keys:        c.ClientKeys(),
			Limits:      c.Limits(),
			Record:      record.Options{OnlyFailures: logged == 0, SkipLog: 1 - logged},
		},
		Chain:       blocks.Options{Classes: c.Classes, Auth: c.Chain.Auth == "keys"},
		Routes:      c.OwnPolicies(),
		Rows:        paths,
		Methods:     methods,
		Story:       story.Options{Shape: c.Chain.Shape, RefuseUnknown: c.Chain.UnknownPaths == "refuse" || len(c.Chain.Nodes) == 0},
		Collections: &listing.Options{NoAuth: c.Collections.Auth == "none", Policy: c.Collections.Policy},
		Streams:     stream.Options{Settings: c.HTTP.Streams, Write: c.HTTP.RequestTimeout},
		Posts:       blocks.Posts{Rate: float64(posts.Requests) / posts.Per.Seconds(), Burst: posts.Burst, MaxBody: int64(c.Chain.MaxTxBytes)},
		GRPC:        &grpc.Options{Settings: c.GRPC.Settings, State: grpcState},
		Listeners:   docs.Listeners{RPC: c.RPC.Listen, GRPC: c.GRPC.Listen, TLS: c.HTTP.TLS.Cert != ""},
		Mounts:      c.HTTP.Mounts,
	}
	if c.RPC.Listen != "" {
		o.RPC = &rpc.Options{Settings: c.RPC.Settings, State: grpcState}
	}
	return o
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
