package collections

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A Mark is the progress of a store.
type Mark struct {
	Store      string        // identifies the store: a random text, or the base URL of another server
	Generation int64         // counts the changes of the content; a store that was restored or replaced may count them again
	Revision   string        // identifies the content: a random text that differs after each change
	Total      int64         // number of collections
	Cursor     ledger.Cursor // last counted block; zero if none
}

// Mark returns the progress of the store. It is cheap enough to be called every second. Its errors are those of List, or
// ErrNotIndexed.
func (s *Store) Mark(ctx context.Context) (Mark, error) {
	return within(ctx, s, s.timeout, s.driver.Mark)
}

// A Watch follows the progress of a store, even if another process fills it.
type Watch struct {
	store *Store
	mark  atomic.Pointer[Mark]          // nil until known
	moved atomic.Pointer[chan struct{}] // closed, and replaced, when the mark has changed
}

// NewWatch returns a Watch and registers its metrics.
func NewWatch(store *Store, registry prometheus.Registerer) *Watch {
	w := &Watch{store: store}
	moved := make(chan struct{})
	w.moved.Store(&moved)
	registry.MustRegister(w) // its names are its own
	return w
}

const watchInterval = 500 * time.Millisecond

// Run polls the store until ctx ends. While the store does not respond, the last mark remains. The mark of a store that
// another server fills has only Store.
func (w *Watch) Run(ctx context.Context) {
	for more := true; more; more = upstream.Sleep(ctx, watchInterval) == nil {
		m, err := w.store.Mark(ctx)
		if err != nil && !errors.Is(err, ErrNotIndexed) {
			continue // an outage is logged
		}
		if before := w.mark.Swap(&m); before == nil || *before != m {
			moved := make(chan struct{})
			close(*w.moved.Swap(&moved))
		}
	}
}

// Mark returns the last mark, or nil if there is none. It must not be changed.
func (w *Watch) Mark() *Mark { return w.mark.Load() }

// Await waits until the store has counted a block.
func (w *Watch) Await(ctx context.Context, block int64) error {
	for {
		moved := *w.moved.Load()
		if m := w.mark.Load(); m != nil && m.Cursor.Block >= block {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var (
	blockDesc = prometheus.NewDesc("tipcache_collections_block",
		"Last block that the collection store has counted. Absent if the store follows no chain.", nil, nil)
	behindDesc = prometheus.NewDesc("tipcache_collections_behind_seconds", "Age of the last block that the collection store has counted, in seconds.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *Watch) Describe(descs chan<- *prometheus.Desc) {
	descs <- blockDesc
	descs <- behindDesc
}

// Collect implements prometheus.Collector.
func (w *Watch) Collect(samples chan<- prometheus.Metric) {
	if m := w.mark.Load(); m != nil && m.Cursor.Chain != 0 {
		samples <- prometheus.MustNewConstMetric(blockDesc, prometheus.GaugeValue, float64(m.Cursor.Block))
		samples <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, time.Since(m.Cursor.Time).Seconds())
	}
}
