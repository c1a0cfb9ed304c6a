package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// Default is the configuration that works beside a node on its default ports.
// What a package has a default of its own for, that package says.
func Default() Config {
	nodes, answers, shared := node.Options{}.WithDefaults(), cache.Options{}.WithDefaults(), redis.Options{}.WithDefaults()
	queries, posts, classes := chain.Options{}.WithDefaults(), blocks.Posts{}.WithDefaults(), blocks.DefaultClasses()
	pages, store := listing.Options{}.WithDefaults(), collections.Options{}.WithDefaults()
	blocks, provider := indexer.Options{}.WithDefaults(), metadata.Options{}.WithDefaults()
	public, streams := web.Options{}.WithDefaults(), stream.Options{}.WithDefaults()
	return Config{
		Listen: "127.0.0.1:8080",
		Admin:  "127.0.0.1:8081",
		Chain: Chain{
			Nodes:    []string{"http://127.0.0.1:1317"},
			Comet:    []string{"http://127.0.0.1:26657"},
			PostRate: fmt.Sprintf("%v/s burst %d", posts.Rate, posts.Burst),
			Shape:    string(queries.Shape), Auth: "none",
			Timeout: nodes.Timeout, InFlight: nodes.InFlight, MaxBlockAge: nodes.MaxBlockAge, RollbackAfter: nodes.RollbackAfter,
		},
		Classes: Classes{Live: classOf(classes.Live), Params: classOf(classes.Params), Pinned: classes.Pinned.Keep, Negative: classes.Negative},
		Cache:   Cache{Memory: Auto, Flight: answers.FlightTimeout, ReadAhead: proxy.DefaultReadAhead},
		Redis:   Redis{URL: "none", Timeout: shared.Timeout},
		Collections: Collections{
			Store: "sqlite:tipcache.db", Auth: "closed", Rate: "0",
			Timeout: store.Timeout, Connections: store.Connections, Fresh: pages.Policy.Fresh, Stale: pages.Policy.Stale, OnError: pages.Policy.StaleIfError,
		},
		Index: Index{
			EVM: []string{"http://127.0.0.1:8545"}, Network: "story",
			Window: blocks.Window, Poll: blocks.Poll,
		},
		Metadata: Metadata{
			Provider: "none", Network: "story-mainnet",
			Budget: provider.Budget, Timeout: provider.Timeout,
		},
		HTTP: HTTP{
			FastLane: true, Immutable: !public.Resettable, SessionCookie: public.SessionCookie,
			Request: public.RequestTimeout,
			Rate:    "0", MaxConnections: 10_000, MaxStreams: streams.Max, ClientStreams: streams.PerClient, LongPoll: streams.LongPoll, CORSOrigins: public.CORSOrigins,
			Drain: 20 * time.Second,
		},
		RPC:     RPC{Node: true},
		GRPC:    GRPC{Web: true},
		Log:     Log{Level: "info", Format: "auto", Access: true, Sample: 1},
		Tracing: Tracing{Ratio: 0.01},
	}
}

func classOf(p cache.Policy) Class {
	return Class{
		FreshBlocks: &p.FreshBlocks, StaleBlocks: &p.StaleBlocks, ErrorBlocks: &p.ErrorBlocks,
		Fresh: &p.Fresh, Stale: &p.Stale, StaleIfError: &p.StaleIfError,
	}
}

// Over lays the keys that c sets over base.
func (c Class) Over(base Class) Class {
	own, all := reflect.ValueOf(c), reflect.ValueOf(&base).Elem()
	for i := range own.NumField() {
		if !own.Field(i).IsNil() {
			all.Field(i).Set(own.Field(i))
		}
	}
	return base
}
