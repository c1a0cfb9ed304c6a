package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream/ledger"
)

// A Store keeps the collections. What it is told once it is not told again.
type Store interface {
	// Cursor returns where the store is, the zero Cursor if nowhere yet.
	Cursor(ctx context.Context) (ledger.Cursor, error)
	// Owners returns those of the ids that the store knows.
	Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error)
	// Apply takes over a tally in one transaction. It fails with
	// ledger.ErrCursorMoved when the store's cursor is not prev, having
	// changed nothing. Any other error leaves open whether it was taken over.
	Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error
}

// Errors that end Run: trying again does not help.
var (
	ErrOtherChain = errors.New("another chain")
	ErrDiverged   = errors.New("the chain does not continue where the store is")
	ErrForbidden  = errors.New("no endpoint lets us ask")
	ErrNoStart    = errors.New("the first block cannot be found")

	errMalformed = errors.New("indexer: an endpoint's URL is malformed (not shown: it may hold a key)")
)

// Options configure an Indexer. Endpoints, Network and Store are required.
type Options struct {
	Endpoints []string // http:// or https:// URLs of execution clients of one chain, the preferred one first
	Network   Network
	Store     Store

	From   int64 // first block, for a store without a cursor; 0 finds where the contracts begin
	Follow bool  // go on with new blocks; otherwise Run ends at the head

	Window  int64         // most blocks asked for in one call; 0 is 10,000
	Ahead   int           // requests for blocks under way at once; 0 is 4
	Poll    time.Duration // between two looks for a new block; 0 is 1 s
	Timeout time.Duration // of one request; 0 is 30 s
	MaxBody int64         // largest answer read, in bytes; 0 is 64 MiB
	Pause   time.Duration // before an endpoint that failed is asked again, at first; 0 is 500 ms
	Grace   time.Duration // how long endpoints may be behind the store before the chain counts as another; 0 is 1 min

	Logger     *slog.Logger          // nil discards
	Tracing    trace.TracerProvider  // nil: no traces
	Registerer prometheus.Registerer // nil measures nothing

	client *http.Client
}

func (o Options) normal() (Options, error) {
	if len(o.Endpoints) == 0 || o.Store == nil {
		return o, errors.New("indexer: Endpoints and Store are required")
	}
	if o.Network.ChainID <= 0 {
		return o, fmt.Errorf("indexer: %d is no chain id", o.Network.ChainID)
	}
	o.Window = cmp.Or(o.Window, 10_000)
	o.Ahead = cmp.Or(o.Ahead, 4)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, 64<<20)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.Grace = cmp.Or(o.Grace, time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.client = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: o.Ahead + 1,
			IdleConnTimeout:     time.Minute,
		},
		// A key in the URL is for this server alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return o, nil
}
