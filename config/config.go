// Package config holds the settings of tipcache, their defaults and their validation.
//
// Every key can be set in a YAML file, by an environment variable and, if it names a
// flag, on the command line. The later source wins. The variable of chain.id is
// TIPCACHE_CHAIN_ID.
//
// config.go has the settings and their defaults. Most packages declare their own, as Settings, and
// config.go includes them. options.go turns settings into the options of other packages, and
// rows.go into routes. load.go reads the sources: a file (file.go), the environment
// (environ.go) and flags. value.go parses values, and keys.go finds their fields by
// reflection. validate.go, validate_access.go and mounts.go report problems (problem.go), and
// warnings.go what probably does not have the intended effect. reload.go applies what may change
// while serving, redact.go hides secrets, and reference.go prints the reference.
package config

import (
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// Config is the whole configuration. Tags describe each setting: yaml is the key, flag the command-line flag, doc the text of
// the reference, must a rule for the value (see rules in validate.go), and oneof the allowed values. A field with the key - is
// not a setting: Load derives it from the settings, or it is zero for the default of its package. secret adds a variable with
// the suffix _FILE and hides the value. reload permits a change on SIGHUP. An inline field, or a section with the type of another
// package, has the settings that this package uses and has the defaults of.
type Config struct {
	Listen string `yaml:"listen" flag:"listen" doc:"Address of the public listener."`
	Admin  string `yaml:"admin" flag:"admin" doc:"Address of the admin listener: status page at /, /healthz, /readyz, /metrics, /debug/pprof. Without admin_token, requests with a host name other than localhost can only read /healthz, /readyz and /metrics. none disables the listener."`

	AdminToken string `yaml:"admin_token" secret:"true" reload:"true" doc:"Token for the admin listener, sent as Authorization: Bearer TOKEN. /healthz, /readyz and /metrics do not need it. At least 16 characters. Required if the listener is not on loopback. Empty means no token. none means no token on any address: everyone who reaches the listener can then purge entries and start profiles."`

	Access []string `yaml:"access" reload:"true" doc:"Access rules for all listeners. The first rule that matches a request decides: deny PATTERN..., allow PATTERN..., limit RATE PATTERN... or cost N PATTERN.... limit sets a rate per client for all requests that match the rule. cost counts a request N times against http.rate and the rates of keys. It may also precede the patterns of allow and limit. A pattern is a path without the base path of its mount (/staking/*), an RPC method (tx_search) or a gRPC method (cosmos.bank.v1beta1.Query/*), where * matches any characters. The pattern of a gRPC method also matches abci_query with its path. A new rule ends the streams and subscriptions that it denies. The last rule is built in: deny /metrics net_info consensus_state dump_consensus_state unconfirmed_txs unsafe_* dial_* cometbft.services.pruning.*."`

	Chain       Chain             `yaml:"chain"`
	Classes     blocks.Classes    `yaml:"classes"`
	Routes      map[string]*Route `yaml:"routes" reload:"true" doc:"Freshness of single routes, by route name, which tipcache explain URL prints. Keys that are not set come from classes.params if the route has that class, and else from classes.live. Data that never changes, such as a transaction, stays fresh."`
	Cache       Cache             `yaml:"cache"`
	Redis       redis.Settings    `yaml:"redis"`
	Collections Collections       `yaml:"collections"`
	Index       Index             `yaml:"index"`
	Metadata    metadata.Settings `yaml:"metadata"`
	HTTP        HTTP              `yaml:"http"`
	RPC         RPC               `yaml:"rpc"`
	GRPC        GRPC              `yaml:"grpc"`
	Log         Log               `yaml:"log"`
	Tracing     Tracing           `yaml:"tracing"`

	Warnings []error `yaml:"-"` // settings of a valid configuration that probably do not have the intended effect
}

// Chain is the upstream node, or several of one chain.
type Chain struct {
	Dialect       string      `yaml:"dialect" flag:"dialect" oneof:", story, cosmos" doc:"Dialect of the nodes: story, or cosmos for any Cosmos SDK chain. If empty, tipcache asks the nodes, and keeps the client ports closed until one has answered."`
	Rows          []string    `yaml:"rows" doc:"Additional routes, each as NAME PATTERN CLASS COST PARAMETERS: pool /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live cheap. They win over the built-in ones, and earlier rows over later ones. A row that no request can reach is an error. deploy/docs/configuration.md explains the words."`
	UnknownPaths  string      `yaml:"unknown_paths" oneof:"pass, refuse" doc:"What happens to GET requests for paths that tipcache does not know. Only for dialect story. pass: tipcache sends them to a node, where they use at most a quarter of chain.in_flight. Responses are cached until the next block and cannot be streamed. A line in chain.rows lifts these limits. refuse: they get 404."`
	PostRate      string      `yaml:"post_rate" doc:"Rate of transactions that tipcache passes to the nodes, for example to broadcast or simulate them. It applies to all clients and APIs together. Client addresses take turns."`
	MaxTxBytes    Bytes       `yaml:"max_tx_bytes" doc:"Maximum size of a request body (RPC, and REST of dialect cosmos) and of a WebSocket or gRPC message, at most 14MiB. In JSON, a transaction is a third larger than in binary. Nodes have their own limits."`
	ID            string      `yaml:"id" flag:"chain-id" doc:"Chain id that the nodes must have. Empty accepts the first chain id seen."`
	Nodes         []string    `yaml:"nodes" flag:"node" secret:"true" reload:"true" doc:"REST addresses of the nodes. none serves only collections. Options after the address apply to all APIs of the node. priority N: tipcache reads the node only while no node with a lower number (default 0) can answer. header NAME=VALUE: tipcache sends this header with every request. Example: https://provider.example priority 1 header X-Key=SECRET."`
	Comet         []string    `yaml:"comet" flag:"comet" secret:"true" reload:"true" doc:"CometBFT RPC addresses, in the order of chain.nodes. none for a node without one, whose height then comes from its REST API."`
	GRPC          []string    `yaml:"grpc" flag:"grpc" reload:"true" doc:"gRPC addresses of the nodes, in the order of chain.nodes: HOST:PORT, https://HOST:PORT for TLS, or none. tipcache then reads the state for RPC and gRPC clients by gRPC, which does not block the consensus of a node. If empty, it uses abci_query of chain.comet, which does."`
	Shape         story.Shape `yaml:"shape" flag:"shape" oneof:"documented, node" doc:"Format of Story responses. documented: as in the documented API. node: the node's own bytes."`
	node.Settings `yaml:",inline"`
	Auth          string `yaml:"auth" flag:"chain-auth" oneof:"keys, none" doc:"Access to the chain API. keys: requests need one of collections.keys in X-Api-Key. none: they need no key."`
}

// Route has the settings of one route. They are the settings of [cache.Policy]. nil means the setting of the route's class.
type Route struct {
	FreshBlocks  *int64         `yaml:"fresh_blocks"`
	StaleBlocks  *int64         `yaml:"stale_blocks"`
	ErrorBlocks  *int64         `yaml:"error_blocks"`
	Fresh        *time.Duration `yaml:"fresh"`
	Stale        *time.Duration `yaml:"stale"`
	StaleIfError *time.Duration `yaml:"stale_if_error"`
}

// RPC is the listener of the CometBFT RPC.
type RPC struct {
	Listen       string `yaml:"listen" flag:"rpc-listen" doc:"Address of the listener for the CometBFT RPC of chain.comet, with the WebSocket at /websocket. Empty disables it."`
	rpc.Settings `yaml:",inline"`
}

// GRPC is the gRPC listener, and gRPC-Web on the public one.
type GRPC struct {
	Listen        string `yaml:"listen" flag:"grpc-listen" doc:"Address of the gRPC listener, in plain text or with http.tls. Empty disables it. Methods that neither read the state nor exist in the RPC need chain.grpc."`
	grpc.Settings `yaml:",inline"`
}

// Cache is the memory store and the flights.
type Cache struct {
	Memory Bytes         `yaml:"memory" doc:"Memory for cached responses. Streams, request bodies, unread responses and responses of nodes may use half of it. The process uses at most 1.5 times this setting plus 100MiB plus 40KiB per connection. auto: a quarter of the container's memory limit, or 256MiB without a limit."`
	Flight time.Duration `yaml:"-"` // longest duration of one read of an upstream
}

// Collections is the collection store and the access to it.
type Collections struct {
	Store                string `yaml:"store" flag:"store" secret:"true" doc:"Collection store: sqlite:PATH, postgres://..., or the https:// base of another /api/v4."`
	collections.Settings `yaml:",inline"`
	Auth                 string       `yaml:"auth" flag:"collections-auth" oneof:"keys, none, closed" doc:"Access to the collections. keys: requests need a key in X-Api-Key. none: they need no key. closed: collections are not served. The default becomes keys if any other setting of collections is set."`
	Keys                 []string     `yaml:"keys" flag:"api-key-sha256" secret:"key" reload:"true" doc:"API keys: NAME:SHA256_HEX or NAME:SHA256_HEX:RATE. RATE replaces http.rate and collections.rate for this key. tipcache key new NAME creates a key. Keys with the same name share a rate."`
	Rate                 string       `yaml:"rate" reload:"true" doc:"Rate per key name, for all APIs together: 300/s, 300/s burst 600 or 1000/h. 0 means no limit."`
	PublicURL            string       `yaml:"public_url" doc:"Scheme and host of the URLs in $schema. If empty, they have the host of the request."`
	Policy               cache.Policy `yaml:"-"` // freshness of pages
}

// Index fills the collection store from the chain.
type Index struct {
	Enabled          bool     `yaml:"enabled" flag:"index" doc:"Whether this process fills collections.store from the execution client of the chain. Only one replica at a time does it."`
	EVM              []string `yaml:"evm" flag:"evm" secret:"true" doc:"JSON-RPC addresses of execution clients, the preferred one first."`
	Network          []string `yaml:"network" flag:"network" doc:"Network whose contracts are indexed: story, aeneid, or a list of four values: the chain id of the execution chain, and the addresses of IPAssetRegistry, LicensingModule and DisputeModule. The name of the network is also the value of chain in collectionMetadata."`
	indexer.Settings `yaml:",inline"`
}

// HTTP is the section of what the listeners for clients have in common, and of base paths and limits.
type HTTP struct {
	Rate           string   `yaml:"rate" reload:"true" doc:"Rate per client address (per /64 for IPv6): 50/s or 50/s burst 200. 0 means no limit."`
	TrustedProxies []string `yaml:"trusted_proxies" reload:"true" doc:"Networks of proxies whose X-Forwarded-For names the client address, and X-Forwarded-Proto the scheme, such as 10.0.0.0/8."`
	ProxyProtocol  string   `yaml:"proxy_protocol" oneof:"off, required" doc:"PROXY protocol, versions 1 and 2, of layer-4 balancers on all listeners except admin. required: tipcache closes connections that do not begin with its header or are not from http.trusted_proxies, and uses the client address in the header for limits, logs and turns. off: no header is expected."`
	web.Settings   `yaml:",inline"`
	FastLane       bool            `yaml:"fast_lane" doc:"Whether repeated requests are answered from memory before net/http reads them."`
	Connections    conn.Settings   `yaml:",inline"`
	IdleTimeout    time.Duration   `yaml:"idle_timeout" must:"positive" doc:"How long a connection of a client may be idle on the public, RPC and gRPC listeners. It must exceed the time for which a balancer keeps idle connections, or the balancer may send a request on a connection that tipcache is closing."`
	Streams        stream.Settings `yaml:",inline"`
	DrainDelay     time.Duration   `yaml:"drain_delay" must:"not negative" doc:"How long tipcache accepts new requests after SIGTERM. /readyz returns 503 during this time, so that load balancers stop sending requests. Running requests then have 20s to finish, or three times chain.timeout plus 5s if that is longer."`
	Drain          time.Duration   `yaml:"-"` // how long requests may take after DrainDelay
	TLS            TLS             `yaml:"tls"`
	Mounts         []proxy.Mount   `yaml:"mounts" doc:"Base paths of the chain API, each with path, shape, fallback, always and pass_authorization. Only a file can hold them. path: the base path, / for the root. shape: documented or node; default chain.shape. fallback: http:// URL of a service for paths that the chain API does not have. always: patterns of paths that always go to this service, even if the chain API has them, such as /staking/validators/{v}. pass_authorization: whether this service gets the header Authorization of requests; default false. If several base paths match, the longest one applies. Without mounts, the chain API is at /. The collections are always at /api/v4."`
}

// TLS applies to all listeners. They serve HTTP/2 with it.
type TLS struct {
	Cert string `yaml:"cert" doc:"PEM file with the certificate and its issuers, for all listeners. Empty disables TLS. A replaced file is read within 2s."`
	Key  string `yaml:"key" doc:"PEM file with the private key of the certificate."`
}

// Log is the log on standard error.
type Log struct {
	Level  string `yaml:"level" flag:"log-level" reload:"true" oneof:"debug, info, warn, error" doc:"Log level: debug, info, warn or error. It also applies to the access log: with warn, successful requests are not logged."`
	Format string `yaml:"format" oneof:"auto, json, text" doc:"Log format: json, text, or auto for text on a terminal and JSON elsewhere."`
	Access string `yaml:"access" doc:"Access log with one line per request. false logs only failures with status 500 and above. A share such as 0.01 logs 1 % of the successful requests (status below 400) and all others."`
}

// Tracing sends OpenTelemetry traces.
type Tracing struct {
	Endpoint string  `yaml:"endpoint" secret:"true" doc:"OTLP/HTTP URL of the trace collector, such as http://127.0.0.1:4318/v1/traces. OTEL_EXPORTER_OTLP_HEADERS adds headers. Empty disables traces."`
	Ratio    float64 `yaml:"ratio" must:"from 0 to 1" doc:"Share of the requests that are traced, 0 to 1. For requests from http.trusted_proxies, the flag of their traceparent header decides instead. A span has a link to the traceparent of any other client."`
}

// Default returns the configuration for a node on its default ports on the same machine.
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
			Connections: conn.DefaultSettings(), IdleTimeout: 620 * time.Second, Streams: stream.DefaultSettings(),
		},
		RPC:     RPC{Settings: rpc.DefaultSettings()},
		Log:     Log{Level: "info", Format: "auto", Access: "true"},
		Tracing: Tracing{Ratio: 0.01},
	}
	c.derive()
	return c
}

// derive sets the timeouts that follow from others: a flight has time for two reads of nodes, or for the wait for another
// replica and one read; a request waits for a flight; and a drain outlasts a request.
func (c *Config) derive() {
	c.Cache.Flight = max(cache.Options{}.WithDefaults().FlightTimeout, 2*c.Chain.Timeout)
	c.HTTP.RequestTimeout = max(web.DefaultSettings().RequestTimeout, 3*c.Chain.Timeout)
	c.HTTP.Drain = c.HTTP.RequestTimeout + 5*time.Second
}
