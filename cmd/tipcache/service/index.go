package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
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

const (
	// leadAgain is the pause before a process that lost the lock, or released it, waits for it again. Others try each second.
	leadAgain = 2 * time.Second
	// maxLeadPause is the maximum of this pause, which doubles while the lock cannot be acquired.
	maxLeadPause = 30 * time.Second
	// maxStuck is how long an indexer may make no progress before it leaves the lock to others, whose execution clients may
	// work. It is longer than the periods of the alerts.
	maxStuck = 10 * time.Minute
)

// KeepIndexing fills a store while this process has the lock, until ctx ends or an error that a retry
// cannot fix.
func KeepIndexing(ctx context.Context, store *collections.Store, x *indexer.Indexer, log *slog.Logger) error {
	last, pause := "", leadAgain // the last logged error, and the next pause
	for {
		waiting, leads := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { x.WatchLeader(waiting) })
		stopWatching := func() { leads(); watching.Wait() }
		err := store.Lead(ctx, func(ctx context.Context) error {
			stopWatching()
			pause = leadAgain
			return runUntilStuck(ctx, x)
		})
		stopWatching()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if x.Status().Ended || errors.Is(err, collections.ErrNotIndexed) {
			return err
		}
		if upstream.KindOf(err) == upstream.BadAnswer { // of the store, whose outage is reported elsewhere
			x.SetWaiting(err)
		}
		level := slog.LevelWarn
		if text := fmt.Sprint(err); text == last {
			level = slog.LevelDebug
		} else {
			last = text
		}
		log.Log(ctx, level, "indexing interrupted, trying again", "error", err)
		if err := upstream.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxLeadPause)
	}
}

// runUntilStuck runs an indexer. If it makes no progress for maxStuck, it ends it and returns the reason.
func runUntilStuck(ctx context.Context, x *indexer.Indexer) error {
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for progress := time.Now(); upstream.Sleep(ctx, leadAgain) == nil; {
			if s := x.Status(); s.Counting() {
				progress = time.Now()
			} else if time.Since(progress) > maxStuck {
				end(s.Err)
			}
		}
	})
	err := x.Run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	end(nil)
	watching.Wait()
	return err
}
