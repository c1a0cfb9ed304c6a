package collections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// Settings are the operator's settings of a store, with their keys in the section collections.
type Settings struct {
	StoreKey string        `yaml:"store_key" secret:"true" doc:"X-Api-Key for an https:// store."`
	Timeout  time.Duration `yaml:"-"` // of a List or Ping; 0 means 5 s
}

// Options are common to the drivers. Zero values select the documented defaults.
type Options struct {
	Settings
	Connections int                   // maximum number of connections, plus one for Lead; 0 means 4
	Memory      *account.Part         // http: budget of responses; nil means no limit
	Logger      *slog.Logger          // nil discards logs
	Registerer  prometheus.Registerer // nil disables metrics
}

// WithDefaults replaces zero values by the defaults.
func (o Options) WithDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Connections = cmp.Or(o.Connections, 4)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// ErrReadOnly is the error of Import for a read-only store.
var ErrReadOnly = errors.New("collections: the store is read-only: import into the database behind it")

// ErrSchemaVersion is the error for a database whose tables were created by another version of tipcache.
var ErrSchemaVersion = errors.New("the store's schema has version")

// OriginName names the store in error messages for clients.
const OriginName = "the collection store"

// A Driver stores collections. Its errors are *upstream.Error, the context's error, or the error of its input.
type Driver interface {
	// List returns the page of a query from a consistent state.
	List(ctx context.Context, q Query) (Page, error)
	// Load inserts or replaces all collections of the sequence, or none. The last one of each address counts.
	Load(ctx context.Context, all iter.Seq2[Collection, error]) error
	// Mark returns the progress. If another server fills the store, it returns only Mark.Store, and ErrNotIndexed.
	Mark(ctx context.Context) (Mark, error)
	Ping(ctx context.Context) error
	Close() error
}

// A Ledger is a Driver that indexers can write to. Its methods do the same as those of Store, but have no timeouts.
type Ledger interface {
	Driver
	Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error)
	Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error
	Trail(ctx context.Context, from ledger.Cursor) ([]ledger.Cursor, error)
	StepBack(ctx context.Context, from, to ledger.Cursor) error
	MarkIncomplete(ctx context.Context) error
	Lead(ctx context.Context, work func(context.Context) error) error
	Shadow(ctx context.Context) (name string, l Ledger, err error)
	SwapIn(ctx context.Context) error
	DropShadow(ctx context.Context) error
}

// A Store answers queries about collections. It is safe for concurrent use.
type Store struct {
	name    string
	driver  Driver
	ledger  Ledger // the driver; nil if another server fills the store
	timeout time.Duration
	seconds *prometheus.HistogramVec // duration of List, by result
	outage  *upstream.Outage

	pinging chan struct{} // held while a Ping is in progress
	pinged  time.Time     // when the last Ping ended
	pingErr error         // of the last Ping
}

// New returns a Store with a driver. The name is for logs and contains no credentials.
func New(name string, d Driver, o Options) *Store {
	o = o.WithDefaults()
	l, _ := d.(Ledger)
	return &Store{
		name: name, driver: d, ledger: l, timeout: o.Timeout, outage: upstream.NewOutage(o.Logger, "collection store "+name),
		seconds: promauto.With(o.Registerer).NewHistogramVec(upstream.Durations("tipcache_collections_list_duration_seconds",
			"Duration of page queries to the collection store in seconds, by result.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}), []string{"result"}),
		pinging: make(chan struct{}, 1),
	}
}

// Outage returns the outage of the store.
func (s *Store) Outage() *upstream.Outage { return s.outage }

// Name returns the name of the store in logs. It contains no credentials.
func (s *Store) Name() string { return s.name }

// List returns one page of a query within its bounds, which the caller has checked. The error is an *upstream.Error, or
// context.Canceled if the caller canceled ctx.
func (s *Store) List(ctx context.Context, q Query) (page Page, err error) {
	ctx, span := upstream.StartSpan(ctx, "collections.list")
	began := time.Now()
	defer func() {
		s.seconds.WithLabelValues(result(err)).Observe(time.Since(began).Seconds())
		if span.IsRecording() {
			span.SetAttributes(attribute.String("tipcache.store", s.name),
				attribute.Int("tipcache.items", len(page.Items)), attribute.Int64("tipcache.total", page.Total))
		}
		upstream.EndSpan(span, err)
	}()
	q.Limit = cmp.Or(q.Limit, DefaultLimit)
	return within(ctx, s, s.timeout, func(ctx context.Context) (Page, error) { return s.driver.List(ctx, q) })
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	if errors.Is(err, context.Canceled) {
		return "canceled"
	}
	return upstream.KindOf(err).String()
}

// within calls read with a timeout and records outages, which are logged when they begin and end. A busy store is
// not an outage, nor is a single slow or refused query.
func within[T any](ctx context.Context, s *Store, timeout time.Duration, read func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := read(bounded)
	err = canceled(ctx, err)
	switch upstream.KindOf(err) {
	case upstream.Unreachable:
		s.outage.Begin(err)
	case upstream.Timeout, upstream.BadAnswer:
		s.outage.Record(err)
	}
	if err == nil {
		s.outage.End()
	}
	return found, err
}

// pingInterval is the least time between two checks of the store by Ping.
const pingInterval = time.Second

// Ping checks that the store responds. It returns the same errors as List. Within pingInterval it returns the last result,
// because /readyz calls it for each request, and needs no token.
func (s *Store) Ping(ctx context.Context) error {
	select {
	case s.pinging <- struct{}{}:
		defer func() { <-s.pinging }()
	case <-ctx.Done():
		return canceled(ctx, upstream.Silence(OriginName, ctx.Err()))
	}
	if time.Since(s.pinged) < pingInterval {
		return s.pingErr
	}
	_, err := within(ctx, s, s.timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.driver.Ping(ctx) })
	if !errors.Is(err, context.Canceled) {
		s.pinged, s.pingErr = time.Now(), err
	}
	return err
}

// Import inserts or replaces all collections of the sequence. The last one of each address counts. If the sequence ends with an
// error or contains an invalid collection, Import changes nothing and returns the error. Readers see the old state until the
// import is complete. It returns the number of collections in the sequence, or ledger.ErrCursorMoved if an indexer has begun to
// fill the store during the import.
func (s *Store) Import(ctx context.Context, all iter.Seq2[Collection, error]) (n int, err error) {
	var refused error
	err = s.driver.Load(ctx, func(yield func(Collection, error) bool) {
		for c, err := range all {
			n++
			if err == nil {
				if err = c.check(); err != nil {
					err = fmt.Errorf("collection %d: %w", n, err)
				}
			}
			refused = err
			if !yield(c, err) || err != nil {
				return
			}
		}
	})
	if refused != nil {
		return 0, refused
	}
	if err != nil {
		return 0, canceled(ctx, err)
	}
	return n, nil
}

// Close waits for operations in progress and releases the store.
func (s *Store) Close() error { return s.driver.Close() }

// canceled returns context.Canceled if err is not nil and the caller has canceled ctx, and err otherwise.
func canceled(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	return err
}

// Busy returns the error for a store that is locked by others or out of resources.
func Busy(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.Overloaded, Msg: OriginName + " is busy", Err: err, RetryAfter: time.Second}
}

// Unusable returns the error for a store with unexpected responses.
func Unusable(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: OriginName + " cannot be used", Err: err}
}
