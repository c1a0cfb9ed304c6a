package collections

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A Mark is the progress of a store.
type Mark struct {
	Generation int64         // as in Page
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

	mu      sync.Mutex
	history []Mark // the last mark of each of the latest generations, in their order
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
// follows no chain is zero.
func (w *Watch) Run(ctx context.Context) {
	for more := true; more; more = upstream.Sleep(ctx, watchInterval) == nil {
		m, err := w.store.Mark(ctx)
		if err != nil && !errors.Is(err, ErrNotIndexed) {
			continue // an outage is logged
		}
		w.add(m)
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

// maxHistory is the number of generations that a Watch remembers.
const maxHistory = 1024

// add adds a mark. A lower generation than before means that the store was replaced.
func (w *Watch) add(m Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.history) - 1
	if last >= 0 && m.Generation < w.history[last].Generation {
		w.history, last = nil, -1
	}
	if last >= 0 && m.Generation == w.history[last].Generation {
		w.history[last] = m
		return
	}
	if w.history = append(w.history, m); len(w.history) > maxHistory {
		w.history = slices.Delete(w.history, 0, len(w.history)-maxHistory)
	}
}

// Counted returns the last block known to be counted in a generation, or 0. The history has about a thousand generations.
func (w *Watch) Counted(generation int64) (block int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range slices.Backward(w.history) {
		if m.Generation <= generation {
			return m.Cursor.Block
		}
	}
	return 0
}
