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
	Blocks   *int64 `json:"blocks_left"`      // nil if another process has the lock, or this one does not advance
	Error    string `json:"error,omitempty"`
}

// indexed returns the state of the index, nil if the store is not indexed.
func (s *Service) indexed() *IndexHealth {
	if s.watch == nil {
		return nil
	}
	m := s.watch.Mark()
	if s.indexer == nil && (m == nil || m.Cursor.Chain == 0) {
		return nil
	}
	var status indexer.Status
	if s.indexer != nil {
		status = s.indexer.Status()
	}
	return NewIndexHealth(m, status)
}

// NewIndexHealth returns the state of a store and of the indexer in this process. A nil mark means unknown.
func NewIndexHealth(m *collections.Mark, status indexer.Status) *IndexHealth {
	h := &IndexHealth{Running: status.Running, State: status.State(), Degraded: status.Err != nil}
	if m != nil && m.Cursor.Chain != 0 {
		h.Chain, h.Block, h.Behind = m.Cursor.Chain, m.Cursor.Block, time.Since(m.Cursor.Time).Round(time.Second).String()
	}
	if status.Err != nil {
		h.Error = status.Err.Error()
	}
	if left, known := status.Left(); known {
		h.Blocks = &left
	}
	return h
}
