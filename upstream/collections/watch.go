package collections

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
)

// A Watch knows how far a store has come, by whatever process it is filled: this one, another,
// or a command.
type Watch struct {
	store  *Store
	outage *upstream.Outage
	mark   atomic.Pointer[Mark]          // nil until known
	moved  atomic.Pointer[chan struct{}] // closed, and replaced, when the mark has changed
	past   history
}

// NewWatch registers its metrics.
func NewWatch(store *Store, log *slog.Logger, registry prometheus.Registerer) *Watch {
	w := &Watch{store: store, outage: upstream.NewOutage(log, "collection store "+store.Name())}
	moved := make(chan struct{})
	w.moved.Store(&moved)
	registry.MustRegister(w) // its names are its own
	return w
}

const watchInterval = 500 * time.Millisecond

// Run looks again and again until ctx ends. While the store is silent, what was
// seen last stays.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *Watch) look(ctx context.Context) {
	m, err := w.store.Mark(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.outage.Begin(err)
		}
		return
	}
	w.outage.End()
	w.past.note(m)
	if before := w.mark.Swap(&m); before == nil || *before != m {
		moved := make(chan struct{})
		close(*w.moved.Swap(&moved))
	}
}

// Mark is what was seen last, nil for nothing yet. It must not be changed.
func (w *Watch) Mark() *Mark { return w.mark.Load() }

// Counted is a block up to which everything is counted in what the store gives in
// a generation, 0 for none known. It remembers about a thousand generations.
func (w *Watch) Counted(generation int64) int64 { return w.past.counted(generation) }

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
		"Last block that the collection store has counted, whoever fills it. Missing where it follows no chain.", nil, nil)
	behindDesc = prometheus.NewDesc("tipcache_collections_behind_seconds", "Age of the last block that the collection store has counted.", nil, nil)
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
