package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/collections"
)

// A storeWatch knows how far the collection store has come, whoever fills it:
// this replica, another, or a command.
type storeWatch struct {
	store *collections.Store
	mark  atomic.Pointer[collections.Mark] // nil until known
}

const watchInterval = 500 * time.Millisecond

// run looks again and again until ctx ends. While the store is silent, what was
// seen last stays.
func (w *storeWatch) run(ctx context.Context) {
	every(ctx, watchInterval, func() {
		if m, err := w.store.Mark(ctx); err == nil {
			w.mark.Store(&m)
		}
	})
}

// progress is what the proxy needs to know.
func (w *storeWatch) progress() (p proxy.StoreProgress) {
	if m := w.mark.Load(); m != nil {
		p.Generation = m.Generation
		if m.Cursor.Chain != 0 {
			p.Behind = time.Since(m.Cursor.Time)
		}
	}
	return p
}

// indexHealth is what /readyz tells of the store's way along the chain. It does
// not make the service unready: the collections that it has can be listed.
type indexHealth struct {
	Chain  int64  `json:"chain"`
	Block  int64  `json:"block"`           // the last one counted
	Behind string `json:"behind"`          // the age of that block
	Blocks *int64 `json:"blocks_left"`     // null where another process indexes
	Error  string `json:"error,omitempty"` // what ended the indexing in this process
}

// indexed returns nil for a store that was never indexed and is not about to be.
func (s *service) indexed() *indexHealth {
	m := s.watch.mark.Load()
	if s.indexer == nil && (m == nil || m.Cursor.Chain == 0) {
		return nil
	}
	h := &indexHealth{}
	if m != nil && m.Cursor.Chain != 0 {
		h.Chain, h.Block, h.Behind = m.Cursor.Chain, m.Cursor.Block, time.Since(m.Cursor.Time).Round(time.Second).String()
	}
	if s.indexer == nil {
		return h
	}
	own := s.indexer.Status()
	if own.Err != nil {
		h.Error = own.Err.Error()
	}
	if own.Head > 0 {
		left := max(0, own.Head-max(h.Block, own.Cursor.Block))
		h.Blocks = &left
	}
	return h
}

// leadAgain is the pause before a replica that lost its turn asks for the next.
const leadAgain = 2 * time.Second

// runIndexer fills the store whenever it is this replica's turn. What ends that
// for good is told in the log and in /readyz, and the service goes on.
func (s *service) runIndexer(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.store.Lead(ctx, s.indexer.Run)
		switch {
		case ctx.Err() != nil:
		case s.indexer.Status().Err != nil || errors.Is(err, collections.ErrNotIndexed):
			s.log.Error("the store is not filled any more", "err", err)
			return
		default:
			s.log.Warn("waiting for a turn to index", "err", err)
			select {
			case <-time.After(leadAgain):
			case <-ctx.Done():
			}
		}
	}
}
