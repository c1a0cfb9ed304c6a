// Package config is what an operator can set: one documented struct, its
// defaults, and the validation of the whole.
//
// Every key can be set in a YAML file, by an environment variable and, where a
// flag is named, on the command line; the later one wins. The variable's name
// is the key's path in upper case with underscores: chain.id is
// TIPCACHE_CHAIN_ID.
package config

import "time"

// Config is the whole configuration. The tags say it all once: koanf is the
// key, flag the command-line flag, doc the line of the reference.
type Config struct {
	Listen string `koanf:"listen" flag:"listen" doc:"address of the public listener"`
	Admin  string `koanf:"admin" flag:"admin" doc:"address of the listener for /healthz, /readyz, /metrics and /debug/pprof; none switches it off"`

	AdminToken string `koanf:"admin_token" secret:"true" reload:"true" doc:"what all of the admin listener but /healthz, /readyz and /metrics requires as Authorization: Bearer; needed where the listener is not on loopback; none: it requires nothing"`

	Chain       Chain            `koanf:"chain"`
	Classes     Classes          `koanf:"classes"`
	Routes      map[string]Class `koanf:"routes" reload:"true" doc:"freshness of single routes by name, in place of their class; unset keys are those of the class"`
	Cache       Cache            `koanf:"cache"`
	Redis       Redis            `koanf:"redis"`
	Collections Collections      `koanf:"collections"`
	Index       Index            `koanf:"index"`
	Metadata    Metadata         `koanf:"metadata"`
	HTTP        HTTP             `koanf:"http"`
	Log         Log              `koanf:"log"`
	Tracing     Tracing          `koanf:"tracing"`
}

// Chain is the upstream node, or several of one chain.
type Chain struct {
	ID            string        `koanf:"id" flag:"chain-id" doc:"chain id the nodes must have; empty takes the first one seen"`
	Nodes         []string      `koanf:"nodes" flag:"node" doc:"REST addresses of the chain's nodes"`
	Comet         []string      `koanf:"comet" flag:"comet" doc:"CometBFT RPC addresses, the n-th for the n-th node; none means no height source: freshness in seconds"`
	Shape         string        `koanf:"shape" flag:"shape" doc:"documented: the documented shapes; node: the node's own bytes"`
	MaxPageLimit  uint64        `koanf:"max_page_limit" doc:"largest pagination.limit"`
	Timeout       time.Duration `koanf:"timeout" doc:"time for one answer of a node"`
	MaxBody       Bytes         `koanf:"max_body" doc:"largest answer of a node"`
	InFlight      int           `koanf:"in_flight" doc:"requests a node gets at once"`
	Scans         int           `koanf:"scans" doc:"requests that read a whole set a node gets at once"`
	Queue         time.Duration `koanf:"queue" doc:"time a request may wait for its turn at a node"`
	Hedge         time.Duration `koanf:"hedge" doc:"time without an answer after which a second node is asked too; 0 is never"`
	BlockInterval time.Duration `koanf:"block_interval" doc:"time between two blocks until it is learned"`
	MaxBlockAge   time.Duration `koanf:"max_block_age" doc:"age of the newest block from which on a node is not ready"`
	Auth          string        `koanf:"auth" doc:"keys: the chain's interface requires one of collections.keys in X-Api-Key, too; none: it does not"`
	MinHeightWait time.Duration `koanf:"min_height_wait" doc:"time a request with X-Min-Block-Height waits for that block"`
}

// Classes are the freshness classes that the route table names.
type Classes struct {
	Live     Class         `koanf:"live"`
	Params   Class         `koanf:"params"`
	Pinned   time.Duration `koanf:"pinned" reload:"true" doc:"time an answer at an explicit height is kept in Redis; it is never stale"`
	Negative time.Duration `koanf:"negative" reload:"true" doc:"life of an answer that says no (unknown address, pruned height)"`
}

// Class says how long answers serve: in blocks while the tip is known, in
// seconds otherwise. Both count from when the answer was last confirmed. The
// last two bounds hold together.
type Class struct {
	FreshBlocks  *int64         `koanf:"fresh_blocks" reload:"true" doc:"blocks an answer is fresh for after its own"`
	StaleBlocks  *int64         `koanf:"stale_blocks" reload:"true" doc:"blocks it is served for while it is read anew"`
	ErrorBlocks  *int64         `koanf:"error_blocks" reload:"true" doc:"blocks it is served for while the node fails"`
	Fresh        *time.Duration `koanf:"fresh" reload:"true" doc:"time an answer is fresh for while no tip is known"`
	Stale        *time.Duration `koanf:"stale" reload:"true" doc:"time it is served for while it is read anew and no tip is known"`
	StaleIfError *time.Duration `koanf:"stale_if_error" reload:"true" doc:"time it is served for while the node fails"`
}

// Cache is the memory store and the flights.
type Cache struct {
	Memory   Bytes         `koanf:"memory" doc:"bytes of answers kept in memory; auto: a quarter of the container's memory limit, 256MiB without one"`
	Flight   time.Duration `koanf:"flight" doc:"longest life of one read of an origin, its queueing included"`
	Lease    time.Duration `koanf:"lease" doc:"longest delay by a replica that died while it was reading"`
	Patience time.Duration `koanf:"patience" doc:"time a request waits for an origin when it could be given an answer kept for errors"`
	Waiters  int           `koanf:"waiters" doc:"requests that may wait for origins at once"`
}

// Redis is the shared store. It is optional and never waited for long.
type Redis struct {
	URL     string        `koanf:"url" flag:"redis" secret:"true" doc:"redis:// or rediss:// URL (several hosts: a Cluster; ?master_name=: Sentinel), embedded for one inside the process, none"`
	Timeout time.Duration `koanf:"timeout" doc:"time for one exchange, after which Redis is passed over"`
}

// Collections is interface (B): the store and who may ask.
type Collections struct {
	Store     string        `koanf:"store" flag:"store" secret:"true" doc:"sqlite:PATH, postgres://..., or the https:// base of another /api/v4"`
	StoreKey  string        `koanf:"store_key" secret:"true" doc:"X-Api-Key for an https:// store"`
	Auth      string        `koanf:"auth" flag:"collections-auth" doc:"keys: X-Api-Key is required; none: it is not; closed: nobody may ask, the default until anything of collections is set"`
	Keys      []string      `koanf:"keys" flag:"api-key-sha256" secret:"true" reload:"true" doc:"NAME:HEX or NAME:HEX:RATE, whose a key is, its SHA-256 digest, and its rate; tipcache key new NAME makes one. Keys of one name share a rate"`
	Rate      string        `koanf:"rate" reload:"true" doc:"requests that each name on a key may make, of both interfaces, as in 300/s, 300/s burst 600 or 1000/h; 0 is no limit"`
	PublicURL string        `koanf:"public_url" doc:"scheme and host in $schema; empty takes the request's host"`
	Timeout   time.Duration `koanf:"timeout" doc:"time for one query of the store"`
	Fresh     time.Duration `koanf:"fresh" doc:"time a page is fresh for"`
	Stale     time.Duration `koanf:"stale" doc:"time it is served for while it is read anew"`
	OnError   time.Duration `koanf:"stale_if_error" doc:"time it is served for while the store fails"`
}

// Index is how the collection store fills itself from the chain.
type Index struct {
	Enabled   bool           `koanf:"enabled" flag:"index" doc:"fill collections.store from the chain's execution client; of several replicas one does it at a time"`
	EVM       []string       `koanf:"evm" flag:"evm" secret:"true" doc:"JSON-RPC addresses of execution clients, the preferred one first"`
	Network   string         `koanf:"network" flag:"network" doc:"whose contracts count: story, aeneid, or custom, those of index.contracts"`
	From      int64          `koanf:"from" flag:"from" doc:"first block of a store that has none yet; 0 finds where the contracts begin, for which the client must know the state of old blocks"`
	Window    int64          `koanf:"window" doc:"most blocks asked for in one call; how many a client gives is found out, and where they are few several calls share a request"`
	Ahead     int            `koanf:"ahead" doc:"requests for blocks under way at once"`
	Poll      time.Duration  `koanf:"poll" doc:"time between two looks for a new block"`
	Timeout   time.Duration  `koanf:"timeout" doc:"time for one answer of a client"`
	Contracts IndexContracts `koanf:"contracts"`
}

// IndexContracts are a network of one's own.
type IndexContracts struct {
	ChainID   int64  `koanf:"chain_id" doc:"chain id of the custom network's execution layer"`
	Registry  string `koanf:"registry" doc:"address of its IPAssetRegistry"`
	Licensing string `koanf:"licensing" doc:"address of its LicensingModule"`
	Disputes  string `koanf:"disputes" doc:"address of its DisputeModule"`
}

// Metadata is the provider that describes collections.
type Metadata struct {
	Provider string        `koanf:"provider" flag:"metadata" secret:"true" doc:"alchemy:URL (the URL ends with the key), blockscout:URL, none"`
	Network  string        `koanf:"network" doc:"network name, the chain field of collectionMetadata"`
	Budget   time.Duration `koanf:"budget" doc:"time a page waits for metadata"`
	Timeout  time.Duration `koanf:"timeout" doc:"time for one answer of the provider"`
	Batch    int           `koanf:"batch" doc:"addresses in one request to the provider"`
}

// HTTP is the public listener's limits.
type HTTP struct {
	Request        time.Duration `koanf:"request" doc:"time for one request, waiting included"`
	Header         time.Duration `koanf:"header" doc:"time a client has for its headers"`
	Idle           time.Duration `koanf:"idle" doc:"time an idle connection is kept"`
	MaxHeader      Bytes         `koanf:"max_header" doc:"largest request header"`
	MaxURL         int           `koanf:"max_url" doc:"longest request target in bytes"`
	Rate           string        `koanf:"rate" reload:"true" doc:"requests that each client address may make, an IPv6 /64 counting as one, as in 50/s or 50/s burst 200; 0 is no limit"`
	TrustedProxies []string      `koanf:"trusted_proxies" reload:"true" doc:"networks of the proxies whose X-Forwarded-For tells a client's address, as in 10.0.0.0/8"`
	CORSOrigins    []string      `koanf:"cors_origins" doc:"origins whose pages may read the answers in a browser, as in https://app.example; *: any page may, which gives away nothing that a page has not the address and the key for; none: no page"`
	AllowNoCache   bool          `koanf:"allow_no_cache" doc:"obey Cache-Control: no-cache and max-age=0 of requests: they get an answer read at the newest block or, where that is not known and for collections, since they came. Each may then cost a read of the origin"`
	MaxConnections int           `koanf:"max_connections" doc:"connections of clients at once, idle ones included; more wait to be accepted. 0 is no limit"`
	DrainDelay     time.Duration `koanf:"drain_delay" doc:"time after SIGTERM in which new requests are still taken while /readyz already says no; as long as load balancers need to notice"`
	Drain          time.Duration `koanf:"drain" doc:"time to finish requests in after that"`
}

// Log is what is written to standard error.
type Log struct {
	Level  string  `koanf:"level" reload:"true" doc:"debug, info, warn or error"`
	Format string  `koanf:"format" doc:"json or text"`
	Access bool    `koanf:"access" doc:"one record per request, written within 100 ms; false: only of those that failed with a status of 500 and more"`
	Sample float64 `koanf:"sample" doc:"share of the records of successful requests (status below 400) that is written, 0 to 1; the others always are"`
}

// Tracing is where OpenTelemetry traces go.
type Tracing struct {
	Endpoint string  `koanf:"endpoint" secret:"true" doc:"OTLP/HTTP URL of a collector, as in http://127.0.0.1:4318/v1/traces, whose headers OTEL_EXPORTER_OTLP_HEADERS may add; empty switches traces off"`
	Ratio    float64 `koanf:"ratio" doc:"share of the requests that is traced, 0 to 1; one that comes with a traceparent is traced if that says so"`
}
