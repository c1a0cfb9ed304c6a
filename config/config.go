// Package config is what an operator can set: one documented struct, its
// defaults, and the validation of the whole.
//
// Every key can be set in a YAML file, by an environment variable and, where a
// flag is named, on the command line; the later one wins. The variable's name
// is the key's path in upper case with underscores: chain.id is
// TIPCACHE_CHAIN_ID.
//
// config.go is the struct, and options.go what it holds when nothing is said, and what
// it makes of it: each package's options.
// load.go lays the sources over that: a file (file.go), the environment (environ.go)
// and flags, whose texts value.go reads into the fields that keys.go finds. validate.go
// judges the whole, and removed.go what sources say of keys that are gone; problem.go
// says what is wrong and where. reload.go takes over what may change while serving,
// and reference.go describes all keys.
package config

import (
	"time"

	"github.com/tipcache/tipcache/cache"
)

// Config is the whole configuration. The tags say it all once: yaml is the
// key, flag the command-line flag, doc the line of the reference, must a rule for the
// value, oneof the values that are allowed, and forms how others may begin, for shells
// to complete. A field whose key is - is no setting: Load derives it from chain.timeout, or
// it is zero, which means its package's default, and tests set it.
type Config struct {
	Listen string `yaml:"listen" flag:"listen" doc:"address of the public listener"`
	Admin  string `yaml:"admin" flag:"admin" forms:"none" doc:"address of the listener for operators: the status page at /, /healthz, /readyz, /metrics, /debug/pprof; without admin_token all but the three in the middle are served under an IP address or localhost only; none switches it off"`

	AdminToken string `yaml:"admin_token" secret:"true" reload:"true" doc:"what all of the admin listener but /healthz, /readyz and /metrics requires as Authorization: Bearer; needed where the listener is not on loopback; none: it requires nothing"`

	Chain       Chain             `yaml:"chain"`
	Classes     Classes           `yaml:"classes"`
	Routes      map[string]*Class `yaml:"routes" reload:"true" doc:"freshness of single routes by name, in place of their class; unset keys are those of the class"`
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
}

// Chain is the upstream node, or several of one chain.
type Chain struct {
	Dialect       string        `yaml:"dialect" flag:"dialect" oneof:", story, cosmos" doc:"story, or cosmos for any chain of the Cosmos SDK; empty finds it out from the nodes, and until one of them answers the chain is not served"`
	Rows          []string      `yaml:"rows" doc:"in the dialect cosmos, routes of one's own: NAME PATTERN CLASS COST PARAMETERS each, as in pool /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live cheap, or as in prices /oracle/{path=**} never cheap * for what is no state and must not be kept; the class is one of live, params, block, found, latest and never, the cost cheap, page or scan"`
	PostRate      string        `yaml:"post_rate" doc:"in the dialect cosmos, transactions that are passed on to be broadcast or simulated, from all clients together and by whichever interface, who take turns by address, as in 50/s burst 100. The largest body is 1MiB"`
	ID            string        `yaml:"id" flag:"chain-id" doc:"chain id the nodes must have; empty takes the first one seen"`
	Nodes         []string      `yaml:"nodes" flag:"node" forms:"none" secret:"true" doc:"REST addresses of the chain's nodes; none serves collections alone"`
	Comet         []string      `yaml:"comet" flag:"comet" forms:"none" secret:"true" doc:"CometBFT RPC addresses, the n-th for the n-th node; none leaves it to the REST server to tell the height"`
	GRPC          []string      `yaml:"grpc" flag:"grpc" forms:"none" doc:"addresses of the gRPC of the nodes, the n-th for the n-th node: host:port, with https:// before it for TLS, or none. Values of the state that clients ask for by RPC or gRPC are read there, beside the consensus, which waits while a node answers abci_query; without it they are read by abci_query of chain.comet"`
	Shape         string        `yaml:"shape" flag:"shape" oneof:"documented, node" doc:"documented: the documented shapes; node: the node's own bytes"`
	Timeout       time.Duration `yaml:"timeout" doc:"time for one answer of a node. A request lasts for three times that at most, 15s at least"`
	InFlight      int           `yaml:"in_flight" must:"not negative" doc:"requests a node gets at once, of which one may read a whole set; 0 is as many as it bears: 4 lists at first, then 2 to 32, more while answers take no longer and block headers come as usual, fewer when either gets worse. Of requests for single items it is twice as many"`
	MaxBlockAge   time.Duration `yaml:"max_block_age" must:"positive" doc:"age of the newest block from which on a node is not ready"`
	RollbackAfter time.Duration `yaml:"-"` // as node.Options says
	Auth          string        `yaml:"auth" oneof:"keys, none" doc:"keys: the chain's interface requires one of collections.keys in X-Api-Key, too; none: it does not"`
}

// Classes are the freshness classes that the route table names.
type Classes struct {
	Live     Class         `yaml:"live"`
	Params   Class         `yaml:"params"`
	Negative time.Duration `yaml:"negative" reload:"true" must:"positive" doc:"life of an answer that says no (unknown address, pruned height)"`
}

// Class says how long answers serve: in blocks while the tip is known, in
// seconds otherwise. Both count from when the answer was last confirmed. The
// last two bounds hold together.
type Class struct {
	FreshBlocks  *int64         `yaml:"fresh_blocks" reload:"true" doc:"blocks an answer is fresh for after its own"`
	StaleBlocks  *int64         `yaml:"stale_blocks" reload:"true" doc:"blocks it is served for when reading it anew takes longer than a quarter of the time between blocks, 500ms at most"`
	ErrorBlocks  *int64         `yaml:"error_blocks" reload:"true" doc:"blocks it is served for while the node fails"`
	Fresh        *time.Duration `yaml:"fresh" reload:"true" doc:"time an answer is fresh for while no tip is known"`
	Stale        *time.Duration `yaml:"stale" reload:"true" doc:"time it is served for when reading it anew takes longer than 100ms and no tip is known"`
	StaleIfError *time.Duration `yaml:"stale_if_error" reload:"true" doc:"time it is served for while the node fails"`
}

// RPC is the node's CometBFT RPC, served to wallets on a listener of its own.
type RPC struct {
	Listen string `yaml:"listen" flag:"rpc-listen" doc:"address of the listener for the CometBFT RPC of the nodes of chain.comet, with its WebSocket at /websocket; empty: it is not served"`
	Node   bool   `yaml:"node" doc:"serve what tells of the node itself, passed through: health, net_info, unconfirmed transactions and the state of the consensus; false: there are no such methods"`
}

// GRPC is the node's gRPC, served on a listener of its own, and gRPC-Web on the public one.
type GRPC struct {
	Listen string `yaml:"listen" flag:"grpc-listen" doc:"address of the listener for the gRPC of the nodes, in plain text or with http.tls; empty: it is not served. Methods that are not of the state, nor of the RPC, need chain.grpc"`

	WebMetadata []string `yaml:"web_metadata" doc:"names of metadata that gRPC-Web passes on from nodes, as headers and trailers that browsers and proxies see, in addition to x-cosmos-* and *-bin. Others are left out"`
}

// Cache is the memory store and the flights.
type Cache struct {
	Memory Bytes         `yaml:"memory" doc:"bytes of answers kept in memory; auto: a quarter of the container's memory limit, 256MiB without one"`
	Flight time.Duration `yaml:"-"` // longest life of one read of an origin; Load makes it twice chain.timeout where that is longer
}

// Redis is the shared store. It is optional and never waited for long.
type Redis struct {
	URL     string        `yaml:"url" flag:"redis" forms:"redis://, rediss://, embedded" secret:"true" doc:"redis:// or rediss:// URL (several hosts: a Cluster; ?master_name=: Sentinel), embedded for one inside the process, none"`
	Timeout time.Duration `yaml:"timeout" must:"positive" doc:"time for one exchange, after which Redis is passed over"`
	SealKey string        `yaml:"seal_key" secret:"true" doc:"secret of 16 characters at least that all replicas share: entries, the epoch with the hashes of blocks, the dialect of the nodes, leases and purges are sealed with it, and what others write of these is not believed; empty is no seals"`
}

// Collections is interface (B): the store and who may ask.
type Collections struct {
	Store     string        `yaml:"store" flag:"store" forms:"sqlite:, postgres://, https://" secret:"true" doc:"sqlite:PATH, postgres://..., or the https:// base of another /api/v4"`
	StoreKey  string        `yaml:"store_key" secret:"true" doc:"X-Api-Key for an https:// store"`
	Auth      string        `yaml:"auth" flag:"collections-auth" oneof:"keys, none, closed" doc:"keys: X-Api-Key is required; none: it is not; closed: no client may ask, the default until anything of collections is set"`
	Keys      []string      `yaml:"keys" flag:"api-key-sha256" secret:"true" reload:"true" doc:"NAME:HEX or NAME:HEX:RATE, whose a key is, its SHA-256 digest, and its rate; tipcache key new NAME makes one. Keys of one name share a rate"`
	Rate      string        `yaml:"rate" reload:"true" doc:"requests that each name on a key may make, of both interfaces, as in 300/s, 300/s burst 600 or 1000/h; 0 is no limit"`
	PublicURL string        `yaml:"public_url" doc:"scheme and host in $schema; empty takes the request's host"`
	Timeout   time.Duration `yaml:"-"` // for one query of the store
	Policy    cache.Policy  `yaml:"-"` // of pages
}

// Index is how the collection store fills itself from the chain.
type Index struct {
	Enabled bool          `yaml:"enabled" flag:"index" doc:"fill collections.store from the chain's execution client; of several replicas one does it at a time"`
	EVM     []string      `yaml:"evm" flag:"evm" secret:"true" doc:"JSON-RPC addresses of execution clients, the preferred one first"`
	Network []string      `yaml:"network" flag:"network" forms:"story, aeneid" doc:"whose contracts count, and whose name is in metadata: story, aeneid, or a list: chain id of the execution layer, and addresses of IPAssetRegistry, LicensingModule and DisputeModule, in this order"`
	From    int64         `yaml:"from" flag:"from" must:"not negative" doc:"first block of a store that has none yet; 0 finds where the contracts begin, as far back as the client knows the state of old blocks"`
	Poll    time.Duration `yaml:"-"` // between two looks for a new block
}

// Metadata is the provider that describes collections.
type Metadata struct {
	Provider string        `yaml:"provider" flag:"metadata" forms:"alchemy:https://, blockscout:https://" secret:"true" doc:"alchemy:URL (the URL ends with the key), blockscout:URL, none"`
	Budget   time.Duration `yaml:"-"` // time a page waits for metadata
	Timeout  time.Duration `yaml:"-"` // for one answer of the provider
}

// HTTP is the public listener's limits.
type HTTP struct {
	Request           time.Duration `yaml:"-"` // for one request, waiting included; Load makes it three times chain.timeout where that is longer
	Rate              string        `yaml:"rate" reload:"true" doc:"requests that each client address may make, an IPv6 /64 counting as one, as in 50/s or 50/s burst 200; 0 is no limit"`
	TrustedProxies    []string      `yaml:"trusted_proxies" reload:"true" doc:"networks of the proxies whose X-Forwarded-For tells a client's address, as in 10.0.0.0/8"`
	CORSOrigins       []string      `yaml:"cors_origins" doc:"origins whose pages may read the answers in a browser, as in https://app.example; *: any page may, which gives away nothing that a page has not the address and the key for; none: no page"`
	SessionCookie     bool          `yaml:"session_cookie" doc:"browsers keep in a cookie how far they have seen the chain, so that pages of the same site do not go back behind it; answers at the newest block are then for one client each"`
	FastLane          bool          `yaml:"fast_lane" doc:"answer requests that memory can answer before net/http sees them; false: net/http sees every request"`
	MaxConnections    int           `yaml:"max_connections" must:"not negative" doc:"connections of clients at once, idle ones included; where all are taken, those that were idle for longest are closed, and where none is idle, more wait to be accepted. 0 is no limit"`
	ClientConnections int           `yaml:"client_connections" must:"not negative" doc:"connections that one client address may hold, an IPv6 /64 counting as one, once more than half of max_connections are taken; trusted proxies and loopback may hold any number. 0 is a twentieth of max_connections, at least 16"`
	MaxStreams        int           `yaml:"max_streams" must:"positive" doc:"streams of events at once; each holds one of max_connections. A client over a limit of streams is told to try again in some seconds"`
	ClientStreams     int           `yaml:"client_streams" must:"positive" doc:"of these, by one client address, an IPv6 /64 counting as one, and by one key"`
	DrainDelay        time.Duration `yaml:"drain_delay" must:"not negative" doc:"time after SIGTERM in which new requests are still taken while /readyz already says no; as long as load balancers need to notice. After it requests have 20s to end, or 5s more than three times chain.timeout"`
	Drain             time.Duration `yaml:"-"` // to finish requests in after that; Load makes it longer than Request
	TLS               TLS           `yaml:"tls"`
}

// TLS is for both listeners, which speak HTTP/2 with it.
type TLS struct {
	Cert string `yaml:"cert" doc:"PEM file with the certificate of both listeners, those of its issuers behind it; empty: no TLS. Files that are replaced are read anew"`
	Key  string `yaml:"key" doc:"PEM file with the certificate's key"`
}

// Log is what is written to standard error.
type Log struct {
	Level  string `yaml:"level" flag:"log-level" reload:"true" oneof:"debug, info, warn, error" doc:"debug, info, warn or error"`
	Format string `yaml:"format" oneof:"auto, json, text" doc:"json, text, or auto: text on a terminal and JSON elsewhere"`
	Access Share  `yaml:"access" doc:"one record per request, written within 100 ms unless what reads it is slower; false: only of those that failed with a status of 500 and more; a share such as 0.01: of so many of the successful requests (status below 400), and of all others"`
}

// Audit is what is read again to find answers that differ.
type Audit struct {
	Share float64 `yaml:"share" must:"from 0 to 1" doc:"share of the answers taken from nodes and Redis that is read again at once at the same height, from another node where there is one, 0 to 1; differences are logged and counted"`
}

// Tracing is where OpenTelemetry traces go.
type Tracing struct {
	Endpoint string  `yaml:"endpoint" secret:"true" doc:"OTLP/HTTP URL of a collector, as in http://127.0.0.1:4318/v1/traces, whose headers OTEL_EXPORTER_OTLP_HEADERS may add; empty switches traces off"`
	Ratio    float64 `yaml:"ratio" must:"from 0 to 1" doc:"share of the requests that is traced, 0 to 1; one that comes with a traceparent is traced if that says so"`
}
