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
	"go.opentelemetry.io/otel/attribute"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// Options are common to the drivers. A zero field means the default it documents.
type Options struct {
	Timeout     time.Duration         // the longest a List or Ping may take; 0 is 5 s
	Connections int                   // the most connections at once; 0 is 4. The one that leads comes on top
	APIKey      string                // http: sent as X-Api-Key; "" sends none
	Memory      *account.Part         // http: answers are read within it; nil means no limit
	Logger      *slog.Logger          // nil discards
	Registerer  prometheus.Registerer // nil measures nothing
}

// WithDefaults fills in the defaults.
func (o Options) WithDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Connections = cmp.Or(o.Connections, 4)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// ErrReadOnly is what Import returns for a store that cannot be written.
var ErrReadOnly = errors.New("collections: the store is read-only: import into the database behind it")

// ErrSchemaVersion says that another version of tipcache created the tables of the database. This
// one leaves them alone.
var ErrSchemaVersion = errors.New("the store's schema has version")

// OriginName is how errors call the store towards clients.
const OriginName = "the collection store"

// A Driver is one way of keeping collections. Its errors are *upstream.Error, the
// context's, or what its input failed with.
type Driver interface {
	// List answers a query whose bounds were checked, from one moment's state.
	List(ctx context.Context, q Query) (Page, error)
	// Load upserts all of the sequence, or nothing. Of each address the last counts.
	Load(ctx context.Context, all iter.Seq2[Collection, error]) error

	// The methods for indexers are those of Store, without bounds of time.
	Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error)
	Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error
	Trail(ctx context.Context, from ledger.Cursor) ([]ledger.Cursor, error)
	StepBack(ctx context.Context, from, to ledger.Cursor) error
	MarkIncomplete(ctx context.Context) error
	Lead(ctx context.Context, work func(context.Context) error) error
	Beside(ctx context.Context) (name string, d Driver, err error)
	Adopt(ctx context.Context) error
	DropBeside(ctx context.Context) error
	Mark(ctx context.Context) (Mark, error)

	Ping(ctx context.Context) error
	Close() error
}

// A Store answers queries about collections. It is safe for concurrent use.
type Store struct {
	name    string
	driver  Driver
	timeout time.Duration
	seconds *prometheus.HistogramVec // of List, by result
	outage  *upstream.Outage
}

// New makes a Store of a driver. The name is for logs and holds no credentials.
func New(name string, d Driver, o Options) (*Store, error) {
	o = o.WithDefaults()
	s := &Store{name: name, driver: d, timeout: o.Timeout, outage: upstream.NewOutage(o.Logger, "collection store "+name)}
	s.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "tipcache_collections_list_duration_seconds",
		Help:    "Duration of page queries to the collection store in seconds, by result.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},

		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"result"})
	if err := cmp.Or[prometheus.Registerer](o.Registerer, prometheus.NewRegistry()).Register(s.seconds); err != nil {
		return nil, fmt.Errorf("collections: registering metrics: %w", err)
	}
	return s, nil
}

// Outage returns the outage of the store.
func (s *Store) Outage() *upstream.Outage { return s.outage }

// Name names the store in logs. It holds no credentials.
func (s *Store) Name() string { return s.name }

// List returns one page. A silent store is an *upstream.Error; a cancelled
// context is the context's error; a query out of bounds is neither.
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
	if q, err = q.normal(); err != nil {
		return Page{}, err
	}
	return within(ctx, s, func(ctx context.Context) (Page, error) { return s.driver.List(ctx, q) })
}

// result is the label of an outcome.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	if errors.Is(err, context.Canceled) {
		return "canceled"
	}
	return cmp.Or(upstream.KindOf(err).String(), "refused")
}

// within bounds a read by the store's timeout, and tells the log once that the
// store is lost, and once that it is back. A store that is busy is neither.
func within[T any](ctx context.Context, s *Store, read func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	found, err := read(bounded)
	err = givenUp(ctx, err)
	switch upstream.KindOf(err) {
	case upstream.Unreachable, upstream.Timeout, upstream.BadAnswer:
		s.outage.Begin(err)
	}
	if err == nil {
		s.outage.End()
	}
	return found, err
}

// Ping asks the store for a sign of life. Its errors are those of List.
func (s *Store) Ping(ctx context.Context) error {
	_, err := within(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.driver.Ping(ctx) })
	return err
}

// Import adds the collections, or replaces those of the same address, the last of which counts: all
// of them, or none when the sequence ends with an error, which is then returned, or has a
// collection that ReadJSONL would refuse. Readers see the store as it was until all is in. It
// returns how many collections the sequence had.
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
		return 0, givenUp(ctx, err)
	}
	return n, nil
}

// Close waits for what is under way in the store and lets go of it.
func (s *Store) Close() error { return s.driver.Close() }

// givenUp returns context.Canceled where the caller has cancelled ctx, and so had it fail.
func givenUp(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	return err
}

// Busy is the error for a store whose other users kept it from answering.
func Busy(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.Overloaded, Msg: OriginName + " is busy", Err: err, RetryAfter: time.Second}
}

// Unusable is the error for a store that answers, but not what it should.
func Unusable(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: OriginName + " cannot be used", Err: err}
}
