// Package config holds the settings of tipcache, their defaults and their validation.
//
// Every key can be set in a YAML file, by an environment variable and, if it names a
// flag, on the command line. The later source wins. The variable of chain.id is
// TIPCACHE_CHAIN_ID.
//
// config.go declares the settings. options.go has their defaults and turns them into the
// options of other packages. load.go reads the sources: a file (file.go), the environment
// (environ.go) and flags. value.go parses values, and keys.go finds their fields by
// reflection. validate.go reports problems (problem.go), reload.go applies what may change
// while serving, and reference.go prints the reference.
package config

import (
	"time"

	"github.com/tipcache/tipcache/cache"
)

// Config is the whole configuration. Tags describe each setting: yaml is the key, flag the command-line
// flag, doc the text of the reference, must a rule for the value, oneof the allowed values, and forms how
// other values may begin, for shell completion. A field with the key - is not a setting: Load derives it
// from the settings, or it is zero for the default of its package.
type Config struct {
	Listen string `yaml:"listen" flag:"listen" doc:"Address of the public listener."`
	Admin  string `yaml:"admin" flag:"admin" forms:"none" doc:"Address of the admin listener: status page at /, /healthz, /readyz, /metrics, /debug/pprof. Without admin_token, only /healthz, /readyz and /metrics are served under a host name other than localhost. none disables it."`

	AdminToken string `yaml:"admin_token" secret:"true" reload:"true" doc:"Token for the admin listener, sent as Authorization: Bearer TOKEN. /healthz, /readyz and /metrics do not need it. At least 16 characters. Required if the listener is not on loopback. Empty means no token."`

	Access []string `yaml:"access" reload:"true" doc:"Access rules for all listeners. The first rule that matches applies: deny PATTERN..., allow PATTERN..., or limit RATE PATTERN... for a rate per client of all matching requests; cost N before the patterns makes a request count N times against the other rates. A pattern is a path (/staking/*), an RPC method (tx_search) or a gRPC method (cosmos.bank.v1beta1.Query/*), and * matches any characters. Streams and subscriptions that a new rule denies end. A gRPC method also stands for abci_query with its path. The last, built-in rule is deny net_info consensus_state dump_consensus_state unconfirmed_txs unsafe_* dial_* cometbft.services.pruning.*."`

	Chain       Chain             `yaml:"chain"`
	Classes     Classes           `yaml:"classes"`
	Routes      map[string]*Class `yaml:"routes" reload:"true" doc:"Freshness of single routes, by route name. Keys that are not set come from the class of the route."`
	Cache       Cache             `yaml:"cache"`
	Redis       Redis             `yaml:"redis"`
	Collections Collections       `yaml:"collections"`
	Index       Index             `yaml:"index"`
	Metadata    Metadata          `yaml:"metadata"`
	HTTP        HTTP              `yaml:"http"`
	RPC         RPC               `yaml:"rpc"`
	GRPC        GRPC              `yaml:"grpc"`
	Log         Log               `yaml:"log"`
	Tracing     Tracing           `yaml:"tracing"`
	Audit       Audit             `yaml:"audit"`

	Warnings []error `yaml:"-"` // settings of a valid configuration that probably do not have the intended effect
}

// Chain is the upstream node, or several of one chain.
type Chain struct {
	Dialect       string        `yaml:"dialect" flag:"dialect" oneof:", story, cosmos" doc:"Dialect of the nodes: story, or cosmos for any Cosmos SDK chain. Empty detects it, and until a node answers, requests for the chain get 503."`
	Rows          []string      `yaml:"rows" doc:"Additional routes, each as NAME PATTERN CLASS COST PARAMETERS: pool /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live cheap. CLASS is live, params, block, found, latest, or never for values that are not part of the state and must not be cached: prices /oracle/{path=**} never cheap *. PATTERN may be a gRPC method: clob /dydxprotocol.clob.Query/StatefulOrder never cheap. COST is cheap, page or scan. These rows win over the built-in ones. The first row that fits a path answers it; one that can never answer is refused."`
	UnknownPaths  string        `yaml:"unknown_paths" oneof:"pass, refuse" doc:"What happens to GET requests for paths that tipcache does not know, dialect story only. pass: a node answers them, within a quarter of its request slots. Responses are cached for the current block only and cannot be streamed; a line in chain.rows lifts that. refuse: they are 404."`
	PostRate      string        `yaml:"post_rate" doc:"Rate of transactions that are passed on to be broadcast or simulated, dialect cosmos only. All clients and APIs together; client addresses take turns."`
	MaxTxBytes    Bytes         `yaml:"max_tx_bytes" doc:"Largest body of a request to the RPC or the REST API of dialect cosmos, and largest message over a WebSocket or gRPC, at most 14MiB. A transaction is a third larger in JSON. Nodes have limits of their own."`
	ID            string        `yaml:"id" flag:"chain-id" doc:"Chain id that the nodes must have. Empty accepts the first chain id seen."`
	Nodes         []string      `yaml:"nodes" flag:"node" forms:"none" secret:"true" reload:"true" doc:"REST addresses of the nodes. none serves collections only. Words after the address apply to all of a node's interfaces: priority N reads a node only while none with a lower number (the default is 0) can answer, and header NAME=VALUE sends a header with every request: https://provider.example priority 1 header X-Key=SECRET."`
	Comet         []string      `yaml:"comet" flag:"comet" forms:"none" secret:"true" reload:"true" doc:"CometBFT RPC addresses, in the order of chain.nodes. none means that the height comes from the REST API."`
	GRPC          []string      `yaml:"grpc" flag:"grpc" forms:"none" reload:"true" doc:"gRPC addresses of the nodes, in the order of chain.nodes: HOST:PORT, https://HOST:PORT for TLS, or none. State requested by RPC or gRPC is then read by gRPC, which does not hold up the consensus of the node as abci_query does. Empty reads it by abci_query of chain.comet."`
	Shape         string        `yaml:"shape" flag:"shape" oneof:"documented, node" doc:"Shape of Story responses. documented: the documented API. node: the bytes of the node."`
	Timeout       time.Duration `yaml:"timeout" doc:"Timeout of one node request. A client request may take three times as long, and at least 15s."`
	InFlight      int           `yaml:"in_flight" must:"not negative" doc:"Maximum number of concurrent requests to a node. Only one of them may read a whole set. 0 adapts it: 4 lists at first, then 2 to 32, depending on latency and block headers, and twice as many requests for single items."`
	MaxBlockAge   time.Duration `yaml:"max_block_age" must:"positive" doc:"A node is not ready if its newest block is older than this."`
	RollbackAfter time.Duration `yaml:"-"` // see node.Options
	Auth          string        `yaml:"auth" oneof:"keys, none" doc:"Access to the chain API. keys: requests need one of collections.keys in X-Api-Key. none: they need no key."`
}

// Classes are the freshness classes that the route table names.
type Classes struct {
	Live     Class         `yaml:"live"`
	Params   Class         `yaml:"params"`
	Negative time.Duration `yaml:"negative" reload:"true" must:"positive" doc:"How long a negative answer is cached, such as an unknown address or a pruned height."`
}

// Class says how long entries are served: in blocks while the tip is known, and in seconds
// otherwise. Both count from when the entry was last confirmed. ErrorBlocks and StaleIfError
// both apply while the node fails.
type Class struct {
	FreshBlocks  *int64         `yaml:"fresh_blocks" reload:"true" doc:"Number of blocks after its own for which an answer is fresh."`
	StaleBlocks  *int64         `yaml:"stale_blocks" reload:"true" doc:"Number of blocks for which an answer is served if the refresh takes longer than a quarter of the block time, or 500ms."`
	ErrorBlocks  *int64         `yaml:"error_blocks" reload:"true" doc:"Number of blocks for which an answer is served while the node fails."`
	Fresh        *time.Duration `yaml:"fresh" reload:"true" doc:"How long an answer is fresh while no tip is known."`
	Stale        *time.Duration `yaml:"stale" reload:"true" doc:"How long an answer is served while no tip is known and the refresh takes longer than 100ms."`
	StaleIfError *time.Duration `yaml:"stale_if_error" reload:"true" doc:"How long an answer is served while the node fails."`
}

// RPC is the listener of the CometBFT RPC.
type RPC struct {
	Listen string `yaml:"listen" flag:"rpc-listen" doc:"Address of the listener for the CometBFT RPC of chain.comet, with the WebSocket at /websocket. Empty disables it."`

	Methods []string `yaml:"methods" doc:"Methods of other RPC servers than CometBFT's that are passed to a node, uncached, within a quarter of its request slots. Name methods that only read. All others are refused with -32601."`
}

// GRPC is the gRPC listener, and gRPC-Web on the public one.
type GRPC struct {
	Listen string `yaml:"listen" flag:"grpc-listen" doc:"Address of the gRPC listener, in plain text or with http.tls. Empty disables it. Methods that neither read the state nor exist in the RPC need chain.grpc."`

	WebMetadata []string `yaml:"web_metadata" doc:"Names of node metadata that gRPC-Web passes on to browsers and proxies, in addition to x-cosmos-* and *-bin. All other metadata is dropped."`
}

// Cache is the memory store and the flights.
type Cache struct {
	Memory Bytes         `yaml:"memory" doc:"Bytes of responses kept in memory. auto: a quarter of the memory limit of the container, or 256MiB without a limit."`
	Flight time.Duration `yaml:"-"` // longest duration of one read of an upstream
}

// Redis is the optional shared store.
type Redis struct {
	URL     string        `yaml:"url" flag:"redis" forms:"redis://, rediss://" secret:"true" doc:"redis:// or rediss:// URL (several hosts: a Cluster; ?master_name=: Sentinel), or none."`
	Timeout time.Duration `yaml:"timeout" must:"positive" doc:"Timeout of one Redis exchange. After it, the request continues without Redis."`
	SealKey string        `yaml:"seal_key" secret:"true" doc:"Secret of at least 16 characters, the same on all replicas. Entries, the epoch with its block hashes, the dialect, leases and purges in Redis are signed with it, and unsigned ones are ignored. Empty disables signatures."`
}

// Collections is the collection store and the access to it.
type Collections struct {
	Store     string        `yaml:"store" flag:"store" forms:"sqlite:, postgres://, https://" secret:"true" doc:"Collection store: sqlite:PATH, postgres://..., or the https:// base of another /api/v4."`
	StoreKey  string        `yaml:"store_key" secret:"true" doc:"X-Api-Key for an https:// store."`
	Auth      string        `yaml:"auth" flag:"collections-auth" oneof:"keys, none, closed" doc:"Access to the collections. keys: requests need a key in X-Api-Key. none: they need no key. closed: collections are not served. The default is keys once any other setting of collections is set."`
	Keys      []string      `yaml:"keys" flag:"api-key-sha256" secret:"true" reload:"true" doc:"API keys: NAME:SHA256_HEX or NAME:SHA256_HEX:RATE. A RATE counts in place of http.rate and collections.rate. tipcache key new NAME creates a key. Keys with the same name share a rate."`
	Rate      string        `yaml:"rate" reload:"true" doc:"Rate per key name, for all APIs together: 300/s, 300/s burst 600 or 1000/h. 0 means no limit."`
	PublicURL string        `yaml:"public_url" doc:"Scheme and host of the URLs in $schema. Empty uses the host of the request."`
	Timeout   time.Duration `yaml:"-"` // timeout of one query of the store
	Policy    cache.Policy  `yaml:"-"` // freshness of pages
}

// Index fills the collection store from the chain.
type Index struct {
	Enabled bool          `yaml:"enabled" flag:"index" doc:"Fill collections.store from the execution client of the chain. One replica at a time does it."`
	EVM     []string      `yaml:"evm" flag:"evm" secret:"true" doc:"JSON-RPC addresses of execution clients, the preferred one first."`
	Network []string      `yaml:"network" flag:"network" forms:"story, aeneid" doc:"Network whose contracts are indexed: story, aeneid, or a list of the chain id of the execution layer and the addresses of IPAssetRegistry, LicensingModule and DisputeModule. Its name is also the chain in metadata."`
	From    int64         `yaml:"from" flag:"from" must:"not negative" doc:"First block of a new store. 0 finds the block in which the contracts appear, as far as the client has the state of old blocks. A store with imported collections needs it: the first block that they do not count."`
	Poll    time.Duration `yaml:"-"` // interval of polls for a new block
}

// Metadata is the provider that describes collections.
type Metadata struct {
	Provider string        `yaml:"provider" flag:"metadata" forms:"alchemy:https://, blockscout:https://" secret:"true" doc:"Metadata provider: alchemy:URL (the URL ends with the key), blockscout:URL or none."`
	Budget   time.Duration `yaml:"-"` // how long a page waits for metadata
	Timeout  time.Duration `yaml:"-"` // timeout of one request to the provider
}

// HTTP is the public listener's limits.
type HTTP struct {
	Request           time.Duration `yaml:"-"` // timeout of one request, including waits
	Rate              string        `yaml:"rate" reload:"true" doc:"Rate per client address (per /64 for IPv6): 50/s or 50/s burst 200. 0 means no limit."`
	TrustedProxies    []string      `yaml:"trusted_proxies" reload:"true" doc:"Networks of proxies whose X-Forwarded-For names the client address, such as 10.0.0.0/8."`
	ProxyProtocol     string        `yaml:"proxy_protocol" oneof:"off, required" doc:"PROXY protocol, versions 1 and 2, of layer-4 balancers on all listeners except admin. required: a connection without its header, or whose peer is not in http.trusted_proxies, is closed. The client address then counts in limits, log and turns. off: the header is not expected."`
	CORSOrigins       []string      `yaml:"cors_origins" doc:"Origins whose pages may read responses in a browser, such as https://app.example. * allows every page, which learns nothing that its author could not request without a browser. none allows no page."`
	SessionCookie     bool          `yaml:"session_cookie" doc:"Keep the session of browsers in a cookie, so that pages of the same site never see an earlier block than before. Responses at the newest block are then private."`
	FastLane          bool          `yaml:"fast_lane" doc:"Answer repeated requests from memory before net/http reads them. false: net/http reads every request."`
	MaxConnections    int           `yaml:"max_connections" must:"not negative" doc:"Maximum number of client connections, including idle ones. At the limit, the connections that were idle longest are closed; if none is idle, new ones wait. 0 means no limit."`
	ClientConnections int           `yaml:"client_connections" must:"not negative" doc:"Maximum connections per client address (per /64 for IPv6). Enforced only while more than half of max_connections are in use; trusted proxies and loopback are exempt. 0 means a twentieth of max_connections, at least 16."`
	MaxStreams        int           `yaml:"max_streams" must:"positive" doc:"Maximum number of event streams. Each also holds a connection. Further streams get 503 with Retry-After."`
	ClientStreams     int           `yaml:"client_streams" must:"positive" doc:"Maximum number of event streams and waiting polls per client address (per /64 for IPv6) and per key. A key with a rate of its own counts as 16 clients."`
	DrainDelay        time.Duration `yaml:"drain_delay" must:"not negative" doc:"How long new requests are accepted after SIGTERM while /readyz already answers 503. Set it to the time that load balancers need to notice. Requests then have 20s to finish, or three times chain.timeout plus 5s if that is longer."`
	Drain             time.Duration `yaml:"-"` // how long requests may take after DrainDelay
	TLS               TLS           `yaml:"tls"`
	Mounts            []Mount       `yaml:"mounts" doc:"Base paths of the chain API, each with path, shape, fallback and always. Only a file can hold them. path: the base path, / for the root. shape: documented or node; default chain.shape. fallback: http:// URL of a service for paths that the chain API does not have. always: patterns of paths that the service answers even if the chain API has them, such as /staking/validators/{v}. The longest path wins. Without mounts, the chain API is at /. The collections are always at /api/v4."`
}

// Mount is a base path of the chain API.
type Mount struct {
	Path     string   `yaml:"path"`
	Shape    string   `yaml:"shape"`
	Fallback string   `yaml:"fallback"`
	Always   []string `yaml:"always"`
}

// TLS applies to all listeners. They serve HTTP/2 with it.
type TLS struct {
	Cert string `yaml:"cert" doc:"PEM file with the certificate and its issuers, for all listeners. Empty disables TLS. A replaced file is read within 2s."`
	Key  string `yaml:"key" doc:"PEM file with the private key of the certificate."`
}

// Log is the log on standard error.
type Log struct {
	Level  string `yaml:"level" flag:"log-level" reload:"true" oneof:"debug, info, warn, error" doc:"Log level: debug, info, warn or error."`
	Format string `yaml:"format" oneof:"auto, json, text" doc:"Log format: json, text, or auto for text on a terminal and JSON elsewhere."`
	Access Share  `yaml:"access" doc:"Access log, one line per request. false logs only failures with status 500 and above. A share such as 0.01 logs that share of the successful requests (status below 400) and all others."`
}

// Audit repeats reads to find responses that differ.
type Audit struct {
	Share float64 `yaml:"share" must:"from 0 to 1" doc:"Share of the answers from nodes and Redis that are read again at the same height, from another node if there is one, 0 to 1. Differences are logged and counted."`
}

// Tracing sends OpenTelemetry traces.
type Tracing struct {
	Endpoint string  `yaml:"endpoint" secret:"true" doc:"OTLP/HTTP URL of the trace collector, such as http://127.0.0.1:4318/v1/traces. OTEL_EXPORTER_OTLP_HEADERS adds headers. Empty disables traces."`
	Ratio    float64 `yaml:"ratio" must:"from 0 to 1" doc:"Share of the requests that are traced, 0 to 1. A request with a traceparent follows it."`
}
