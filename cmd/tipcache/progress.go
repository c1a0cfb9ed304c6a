package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/indexer"
)

// A storeWatch knows how far the collection store has come, whoever fills it:
// this replica, another, or a command.
type storeWatch struct {
	store   *collections.Store
	outage  *upstream.Outage
	indexed bool                             // an indexer of this configuration fills it
	mark    atomic.Pointer[collections.Mark] // nil until known
	moved   atomic.Pointer[chan struct{}]    // closed, and replaced, when the mark has changed
}

func newStoreWatch(store *collections.Store, indexed bool, log *slog.Logger, registry prometheus.Registerer) *storeWatch {
	w := &storeWatch{store: store, outage: upstream.NewOutage(log, "collection store "+store.Name()), indexed: indexed}
	moved := make(chan struct{})
	w.moved.Store(&moved)
	registry.MustRegister(w) // its names are its own
	return w
}

const watchInterval = 500 * time.Millisecond

// run looks again and again until ctx ends. While the store is silent, what was
// seen last stays.
func (w *storeWatch) run(ctx context.Context) {
	w.look(ctx)
	every(ctx, watchInterval, func() { w.look(ctx) })
}

func (w *storeWatch) look(ctx context.Context) {
	m, err := w.store.Mark(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.outage.Begin(err)
		}
		return
	}
	w.outage.End()
	if before := w.mark.Swap(&m); before == nil || *before != m {
		moved := make(chan struct{})
		close(*w.moved.Swap(&moved))
	}
}

// await waits until the store has counted a block.
func (w *storeWatch) await(ctx context.Context, block int64) error {
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

// progress is what the proxy needs to know.
func (w *storeWatch) progress() (p listing.Progress) {
	m := w.mark.Load()
	if m == nil {
		return listing.Progress{Filling: w.indexed}
	}
	p.Generation, p.Block = m.Generation, m.Cursor.Block
	if m.Cursor.Chain != 0 {
		p.Behind = time.Since(m.Cursor.Time)
	} else {
		p.Filling = w.indexed && m.Total == 0
	}
	return p
}

var (
	blockDesc = prometheus.NewDesc("tipcache_collections_block",
		"Last block that the collection store has counted, whoever fills it. Missing where it follows no chain.", nil, nil)
	behindDesc = prometheus.NewDesc("tipcache_collections_behind_seconds", "Age of the last block that the collection store has counted.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *storeWatch) Describe(descs chan<- *prometheus.Desc) {
	descs <- blockDesc
	descs <- behindDesc
}

// Collect implements prometheus.Collector.
func (w *storeWatch) Collect(samples chan<- prometheus.Metric) {
	if m := w.mark.Load(); m != nil && m.Cursor.Chain != 0 {
		samples <- prometheus.MustNewConstMetric(blockDesc, prometheus.GaugeValue, float64(m.Cursor.Block))
		samples <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, time.Since(m.Cursor.Time).Seconds())
	}
}

// indexHealth is what /readyz tells of the store's way along the chain. It does
// not make the service unready: the collections that it has can be listed.
type indexHealth struct {
	Chain   int64  `json:"chain"`
	Block   int64  `json:"block"`           // the last one counted
	Behind  string `json:"behind"`          // the age of that block
	Running bool   `json:"running"`         // this process has its turn
	Blocks  *int64 `json:"blocks_left"`     // null where another process has
	Error   string `json:"error,omitempty"` // what ended the indexing in this process
}

// indexed returns nil for a store that was never indexed and is not about to be.
func (s *service) indexed() *indexHealth {
	m := s.watch.mark.Load()
	if s.indexer == nil && (m == nil || m.Cursor.Chain == 0) {
		return nil
	}
	var own indexer.Status
	if s.indexer != nil {
		own = s.indexer.Status()
	}
	return newIndexHealth(m, own)
}

// newIndexHealth joins what the store says, nil for nothing yet, with what this
// process does.
func newIndexHealth(m *collections.Mark, own indexer.Status) *indexHealth {
	h := &indexHealth{Running: own.Running}
	if m != nil && m.Cursor.Chain != 0 {
		h.Chain, h.Block, h.Behind = m.Cursor.Chain, m.Cursor.Block, time.Since(m.Cursor.Time).Round(time.Second).String()
	}
	if own.Err != nil {
		h.Error = own.Err.Error()
	}
	if own.Running && own.Head > 0 {
		left := own.Left()
		h.Blocks = &left
	}
	return h
}

// leadAgain is the pause before a process that lost its turn asks for the next.
const leadAgain = 2 * time.Second

// runIndexer fills the store whenever it is this replica's turn. What ends that
// for good is told in the log and in /readyz, and the service goes on.
func (s *service) runIndexer(ctx context.Context) {
	if err := keepIndexing(ctx, s.store, s.indexer, s.log); ctx.Err() == nil {
		s.log.Error("the store is not filled any more", "error", err)
	}
}

// keepIndexing fills a store whenever it is this process's turn, until ctx ends
// or something happens that trying again does not help against.
func keepIndexing(ctx context.Context, store *collections.Store, x *indexer.Indexer, log *slog.Logger) error {
	for {
		err := store.Lead(ctx, x.Run)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if x.Status().Ended || errors.Is(err, collections.ErrNotIndexed) {
			return err
		}
		log.Warn("waiting for a turn to index", "error", err)
		select {
		case <-time.After(leadAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
