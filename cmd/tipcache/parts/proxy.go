package parts

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/upstream/events"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Proxy makes the options of the proxy, without the cache and the clients of origins.
func Proxy(cfg config.Config) proxy.Options {
	c, public, pages := cfg.Chain, cfg.HTTP, cfg.Collections
	return proxy.Options{
		Web: web.Options{
			RequestTimeout: public.Request,
			PublicURL:      pages.PublicURL,
			CORSOrigins:    public.CORSOrigins,
			Resettable:     !public.Immutable,
			SessionCookie:  public.SessionCookie,
			Keys:           Keys(cfg),
			Limits:         Limits(cfg),
			SharedLimits:   limits.Shared{Timeout: cfg.Redis.Timeout},
			OnlyFailures:   !cfg.Log.Access,
			SkipLog:        1 - cfg.Log.Sample,
		},
		Chain: chain.Options{
			Classes: Classes(cfg),
			Routes:  OwnPolicies(cfg),
			Shape:   chain.Shape(c.Shape),
			Auth:    c.Auth == "keys",
		},
		Cosmos: cosmosOptions(cfg),
		Collections: &listing.Options{
			NoAuth: pages.Auth == "none",
			Policy: cache.Policy{Fresh: pages.Fresh, Stale: pages.Stale, StaleIfError: pages.OnError, Keep: pages.OnError},
		},
		Streams:   stream.Options{Max: public.MaxStreams, PerClient: public.ClientStreams, LongPoll: public.LongPoll, Write: public.Request},
		RPC:       rpcOptions(cfg),
		Posts:     posts(cfg),
		GRPC:      grpcOptions(cfg),
		Listeners: docs.Listeners{RPC: cfg.RPC.Listen, GRPC: cfg.GRPC.Listen, GRPCWeb: cfg.GRPC.Web},
		ReadAhead: proxy.ReadAhead{Share: cfg.Cache.ReadAhead},
	}
}

// cosmosOptions are nil in the dialect of Story.
func cosmosOptions(cfg config.Config) *proxy.Cosmos {
	if cfg.Chain.Dialect != string(node.Cosmos) {
		return nil
	}
	return &proxy.Cosmos{Rows: ownRows(cfg)}
}

// rpcOptions are nil where the RPC is not served.
func rpcOptions(cfg config.Config) *rpc.Options {
	if cfg.RPC.Listen == "" {
		return nil
	}
	return &rpc.Options{State: stateOptions(cfg), NoOwn: !cfg.RPC.Node}
}

func posts(cfg config.Config) blocks.Posts {
	rate, _ := config.ParseRate(cfg.Chain.PostRate) // validated
	return blocks.Posts{Rate: float64(rate.Requests) / rate.Per.Seconds(), Burst: rate.Burst}
}

// grpcOptions are nil where neither gRPC nor gRPC-Web is served.
func grpcOptions(cfg config.Config) *grpc.Options {
	if cfg.GRPC.Listen == "" && !cfg.GRPC.Web {
		return nil
	}
	return &grpc.Options{State: stateOptions(cfg), Web: cfg.GRPC.Web}
}

func stateOptions(cfg config.Config) state.Options { return state.Options{GRPC: cfg.ReadsGRPC()} }

// ownRows are the routes that the operator has added.
func ownRows(cfg config.Config) (rows []cosmos.Row) {
	for _, line := range cfg.Chain.Rows {
		if row, err := cosmos.ParseRow(line); err == nil { // validated
			rows = append(rows, row)
		}
	}
	return rows
}

// Keys are the API keys of all clients.
func Keys(cfg config.Config) (keys []limits.Key) {
	for _, line := range cfg.Collections.Keys {
		key, _ := config.ParseAPIKey(line) // validated
		keys = append(keys, key)
	}
	return keys
}

// Limits are the rates of keys and addresses, and the proxies that tell a client's address.
func Limits(cfg config.Config) limits.Limits {
	key, _ := config.ParseRate(cfg.Collections.Rate) // all validated
	address, _ := config.ParseRate(cfg.HTTP.Rate)
	l := limits.Limits{Key: key, Address: address}
	for _, network := range cfg.HTTP.TrustedProxies {
		prefix, _ := config.ParseNetwork(network)
		l.TrustedProxies = append(l.TrustedProxies, prefix)
	}
	return l
}

// Socket are the options of the WebSocket.
func Socket(cfg config.Config) socket.Options {
	return socket.Options{Write: cfg.HTTP.Request}
}

// Events are the options of a feed before the nodes of a chain.
func Events(pool *node.Pool, log *slog.Logger, registerer prometheus.Registerer) events.Options {
	o := events.Options{Heights: pool, Logger: log, Registerer: registerer}
	for _, c := range pool.CometBFT() {
		o.Nodes = append(o.Nodes, events.Node{Name: c.Name(), Fit: c.Fit, Call: c.Call, Subscribe: func(ctx context.Context, query string) (events.Stream, error) {
			return c.Messages(ctx, query, events.MaxMessage)
		}})
	}
	return o
}
