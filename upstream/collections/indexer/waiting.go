package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// ErrLeaderStalled means that another process has the store's lock, but does not index: it is frozen, its execution client stands
// still, or a pooler keeps the lock of a process that has ended.
var ErrLeaderStalled = errors.New("another process has the lock of the store, but does not index")

// WatchLeader compares the store with the chain while another process fills the store, until ctx ends. If the store's block does not
// change for twice Options.Doubt although the chain has a later one, Status has ErrLeaderStalled. It must not run at the same time
// as Run.
func (x *Indexer) WatchLeader(ctx context.Context) {
	defer x.pool.Close()
	var at ledger.Cursor
	moved := time.Now()
	for upstream.Sleep(ctx, leaderPolls*x.o.Poll) == nil {
		_ = x.guard(func() error {
			m, err := x.o.Store.Mark(ctx)
			if err != nil {
				return err
			}
			head, err := x.newestBlock(ctx)
			if err != nil {
				return err
			}
			switch {
			case m.Cursor != at || head <= at.Block:
				at, moved = m.Cursor, time.Now()
				x.SetWaiting(nil)
			case time.Since(moved) > 2*x.o.Doubt:
				x.SetWaiting(fmt.Errorf("%w: the store has been at block %d since %s, the chain is at %d",
					ErrLeaderStalled, at.Block, moved.UTC().Format(time.TimeOnly), head))
			}
			return nil
		})
	}
}

// leaderPolls is the interval of WatchLeader in multiples of Options.Poll.
const leaderPolls = 15

// newestBlock returns the newest block of the first execution client that answers.
func (x *Indexer) newestBlock(ctx context.Context) (head int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Grace)
	defer cancel()
	err = x.pool.Try(ctx, func(e *evm.Session) error {
		head, _, err = e.Poll(ctx, 0)
		return err
	})
	return head, err
}

// SetWaiting records and logs why this process cannot index, and no other one does. nil means that another one may.
func (x *Indexer) SetWaiting(err error) {
	x.status.mu.Lock()
	before := x.status.waiting
	x.status.waiting = err
	x.status.mu.Unlock()
	if err != nil && (before == nil || before.Error() != err.Error()) && !(errors.Is(before, ErrLeaderStalled) && errors.Is(err, ErrLeaderStalled)) {
		x.log.Warn("nobody indexes", "error", err)
	}
}
