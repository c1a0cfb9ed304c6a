package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// progress is what the listing needs to know of its store.
func (s *Service) progress() (p listing.Progress) {
	m := s.watch.Mark()
	if m == nil {
		return listing.Progress{Filling: s.cfg.Index.Enabled}
	}
	p.Generation, p.Block = m.Generation, m.Cursor.Block
	if m.Cursor.Chain != 0 {
		p.Behind = time.Since(m.Cursor.Time)
	} else {
		p.Filling = s.cfg.Index.Enabled && m.Total == 0
	}
	return p
}

// IndexHealth is how far the store has followed the chain, in /readyz. A store that
// is behind does not make the service unready: the collections in it can be listed.
type IndexHealth struct {
	Chain   int64  `json:"chain"`
	Block   int64  `json:"block"`           // the last one counted
	Behind  string `json:"behind"`          // the age of that block
	Running bool   `json:"running"`         // this process has its turn
	Blocks  *int64 `json:"blocks_left"`     // null where another process has
	Error   string `json:"error,omitempty"` // what ended the indexing in this process
}

// indexed returns nil for a store that was never indexed and is not about to be.
func (s *Service) indexed() *IndexHealth {
	if s.watch == nil {
		return nil
	}
	m := s.watch.Mark()
	if s.indexer == nil && (m == nil || m.Cursor.Chain == 0) {
		return nil
	}
	var own indexer.Status
	if s.indexer != nil {
		own = s.indexer.Status()
	}
	return NewIndexHealth(m, own)
}

// NewIndexHealth joins what the store says, nil for nothing yet, with what this
// process does.
func NewIndexHealth(m *collections.Mark, own indexer.Status) *IndexHealth {
	h := &IndexHealth{Running: own.Running}
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
func (s *Service) runIndexer(ctx context.Context) {
	if err := KeepIndexing(ctx, s.store, s.indexer, s.log); ctx.Err() == nil {
		s.log.Error("the store is not filled any more", "error", err)
	}
}

// KeepIndexing fills a store whenever it is this process's turn, until ctx ends
// or something happens that trying again does not help against.
func KeepIndexing(ctx context.Context, store *collections.Store, x *indexer.Indexer, log *slog.Logger) error {
	for {
		err := store.Lead(ctx, x.Run)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if x.Status().Ended || errors.Is(err, collections.ErrNotIndexed) {
			return err
		}
		log.Warn("waiting for a turn to index", "error", err)
		if err := upstream.Sleep(ctx, leadAgain); err != nil {
			return err
		}
	}
}
