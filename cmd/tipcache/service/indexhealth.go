package service

import (
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// IndexHealth is the state of the index in /readyz. A store that is behind does not make the service
// unready, because its collections can be listed.
type IndexHealth struct {
	Chain    int64  `json:"chain,omitempty"`
	Block    int64  `json:"block,omitempty"`  // last counted block; missing before the first
	Behind   string `json:"behind,omitempty"` // the age of that block
	Running  bool   `json:"running"`          // this process has the lock
	State    string `json:"state"`            // of this process, as tipcache_indexer_state has it
	Degraded bool   `json:"degraded"`         // this process does not advance, or its counts are too low; Error says why
	Blocks   *int64 `json:"blocks_left"`      // null if another process has the lock, or this one does not advance
	Error    string `json:"error,omitempty"`
}

// indexed returns nil for a store that is not indexed.
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

// NewIndexHealth returns the state of a store, whose mark is nil if it is unknown, and of this process.
func NewIndexHealth(m *collections.Mark, own indexer.Status) *IndexHealth {
	h := &IndexHealth{Running: own.Running, State: own.State(), Degraded: own.Err != nil}
	if m != nil && m.Cursor.Chain != 0 {
		h.Chain, h.Block, h.Behind = m.Cursor.Chain, m.Cursor.Block, time.Since(m.Cursor.Time).Round(time.Second).String()
	}
	if own.Err != nil {
		h.Error = own.Err.Error()
	}
	if left, known := own.Left(); known {
		h.Blocks = &left
	}
	return h
}
