package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// Options configure a Pool. The zero value of a field means its default.
type Options struct {
	Endpoints []Endpoint // none: nothing can be read, and the Pool is ready
	Dialect   Dialect    // Story; Undetermined reads nothing before SetDialect
	ChainID   string     // the chain every endpoint must serve; "" takes the first one seen

	Timeout  time.Duration // for one answer of one endpoint, queueing not included; 5s
	MaxBody  int64         // largest answer in bytes; 64 MiB
	InFlight int           // requests one endpoint gets at once, of whatever cost; 0: as much as it bears, as package queue finds out
	Scans    int           // of those, requests of cost Scan; 1
	Queue    time.Duration // how long a foreground request waits for its turn; 2s

	MaxBlockAge   time.Duration // a chain whose newest block is older is not ready; 30s
	BlockInterval time.Duration // time between blocks until it has been learned; 2.1s
	RollbackAfter time.Duration // for so long all sources name lower blocks before the chain is taken for set back; 10s

	// OnEpoch is called from Run as soon as the chain and its epoch are known:
	// ChainID or an endpoint names the chain, Ledger the epoch; and with another
	// epoch whenever the chain was reset or set back. Nothing of one epoch is
	// true in another. It is called before the tip falls.
	OnEpoch func(chainID string, epoch int64)

	Ledger     heights.Ledger        // nil: no other replica is to agree
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil: no metrics
}

// An Endpoint is one node.
type Endpoint struct {
	REST  string // base URL of the REST server, such as http://127.0.0.1:1317; a path is a prefix
	Comet string // base URL of CometBFT's RPC, such as tcp://127.0.0.1:26657; "" for no height source
	GRPC  string // address of the gRPC server, such as 127.0.0.1:9090, with https:// before it for TLS; "" for none
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Timeout = or(o.Timeout, 5*time.Second)
	o.MaxBody = or(o.MaxBody, 64<<20)
	o.Scans = min(or(o.Scans, 1), or(o.InFlight, queue.Most))
	o.Queue = or(o.Queue, 2*time.Second)
	o.MaxBlockAge = or(o.MaxBlockAge, 30*time.Second)
	o.BlockInterval = or(o.BlockInterval, 2100*time.Millisecond)
	o.RollbackAfter = or(o.RollbackAfter, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// connections is how many an endpoint may have that are idle: as many as requests at once.
func (o Options) connections() int { return or(o.InFlight, queue.MostRequests) }

// or is v unless it is zero or less.
func or[T int | int64 | time.Duration](v, fallback T) T {
	if v > 0 {
		return v
	}
	return fallback
}

// parseBase reads a base URL. CometBFT's own configuration writes tcp:// for
// what is spoken as http://.
func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(raw, "/"))
	if err != nil {
		// The error of url.Parse repeats the URL, and with it a password.
		return nil, errors.New("not a URL")
	}
	if u.Scheme == "tcp" {
		u.Scheme = "http"
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL", u.Redacted())
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("a base URL has no query and no fragment")
	}
	return u, nil
}
