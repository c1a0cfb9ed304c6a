package indexer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A Store keeps the collections, and how far they are counted.
type Store interface {
	// Cursor returns where the store is, the zero Cursor if nowhere yet.
	Cursor(ctx context.Context) (ledger.Cursor, error)
	// Owners returns those of the ids that the store knows.
	Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error)
	// Trail returns the cursors before one, the latest first, as far as nothing was counted since.
	Trail(ctx context.Context, from ledger.Cursor) ([]ledger.Cursor, error)
	// StepBack moves the cursor back to one of its trail. It fails like Apply.
	StepBack(ctx context.Context, from, to ledger.Cursor) error
	// MarkIncomplete records that the store may lack logs: its Cursor says so until a rebuild.
	MarkIncomplete(ctx context.Context) error
	// Apply takes over a tally in one transaction. It fails with ledger.ErrCursorMoved,
	// having changed nothing, when the cursor is not prev. Any other error leaves open
	// whether it was taken over.
	Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error
}

// Errors of Run, and of Status.
var (
	ErrOtherChain = evm.ErrOtherChain // of an endpoint, or of a store that was filled from another chain or from other contracts
	ErrDiverged   = errors.New("the chain does not continue where the store is")
	ErrForbidden  = evm.ErrForbidden
	ErrNoContract = errors.New("there is no contract")
	ErrIncomplete = errors.New("the store may lack logs: count them again with tipcache index --rebuild")

	errUnreachable = evm.ErrUnreachable // of Status

	errLagging      = errors.New("the execution client is behind")
	errInconsistent = errors.New("execution clients contradict each other, or themselves")
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
	Memory  *account.Part // answers are read within it; nil means no limit
	Pause   time.Duration // before an endpoint that failed is asked again, at first; 0 is 500 ms
	Grace   time.Duration // how long endpoints may be behind the store, or give no answers, before Status says so; 0 is 10 s
	Doubt   time.Duration // how long endpoints that contradict the store, or each other, are asked again before Run ends; 0 is 1 min

	Logger     *slog.Logger          // nil discards
	Tracing    trace.TracerProvider  // nil: no traces
	Registerer prometheus.Registerer // nil measures nothing
}

// WithDefaults fills in what was left zero, but for what package evm does.
func (o Options) WithDefaults() Options {
	client := evm.Options{}.WithDefaults()
	o.Ahead = cmp.Or(o.Ahead, client.Parallel)
	o.Pause = cmp.Or(o.Pause, client.Pause)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.Doubt = cmp.Or(o.Doubt, time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}
