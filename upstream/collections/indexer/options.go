package indexer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A Store holds the collections and the cursor up to which they are counted. It is implemented by *collections.Store.
type Store interface {
	Mark(ctx context.Context) (collections.Mark, error)
	Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error)
	Trail(ctx context.Context, from ledger.Cursor) ([]ledger.Cursor, error)
	StepBack(ctx context.Context, from, to ledger.Cursor) error
	MarkIncomplete(ctx context.Context) error
	Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error
}

// Errors of Run, and of Status.
var (
	ErrOtherChain = evm.ErrOtherChain // an endpoint serves another chain, or the store was filled from another chain or other contracts
	ErrDiverged   = errors.New("the chain does not contain the store's last block")
	ErrForbidden  = evm.ErrForbidden
	ErrNoContract = errors.New("address has no contract")
	ErrImported   = errors.New("the store holds imported collections")
	ErrIncomplete = errors.New("the store may lack logs: count them again with tipcache index --rebuild")

	errLagging      = errors.New("the execution client is behind")
	errInconsistent = errors.New("execution clients contradict each other, or themselves")
)

// Settings are the operator's settings of an indexer, with their keys in the section index.
type Settings struct {
	From int64         `yaml:"from" flag:"from" must:"not negative" doc:"First block to index into an empty store. 0 searches for the block in which the contracts appear, or for the earliest possible block if the client has pruned old state. Required for a store with imported collections: the first block that they do not include."`
	Poll time.Duration `yaml:"-"` // between two polls for a new block; 0 means 1 s
}

// Options configure an Indexer. Endpoints, Network and Store are required. New sets ChainID, Patient and Observe.
type Options struct {
	Settings
	evm.Options
	Network Network
	Store   Store

	Follow bool // continue with new blocks; otherwise Run ends at the head
	Strict bool // an incomplete store ends Run with ErrIncomplete at once; otherwise only at the head, without Follow

	Grace time.Duration // how long endpoints may lag behind the store or not respond before Status reports it; 0 means 10 s
	Doubt time.Duration // how long endpoints may contradict the store or each other before Run ends; 0 means 1 min

	Tracing    trace.TracerProvider  // nil disables traces
	Registerer prometheus.Registerer // nil disables metrics
}

// WithDefaults replaces zero values by the defaults.
func (o Options) WithDefaults() Options {
	o.Options = o.Options.WithDefaults()
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.Doubt = cmp.Or(o.Doubt, time.Minute)
	o.Tracing = cmp.Or[trace.TracerProvider](o.Tracing, noop.NewTracerProvider())
	return o
}
