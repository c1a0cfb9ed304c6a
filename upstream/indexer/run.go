package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/evm"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// An Indexer fills one store. Any number of them may work for the same store,
// though one at a time is enough.
type Indexer struct {
	o       Options
	log     *slog.Logger
	pool    *evm.Pool
	metrics *metrics
	status  status
}

// New checks the options and asks nobody yet.
func New(o Options) (*Indexer, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	x := &Indexer{o: o, log: o.Logger}
	if x.pool, err = evm.NewPool(evm.Options{
		Endpoints: o.Endpoints, ChainID: o.Network.ChainID, Window: o.Window, Parallel: o.Ahead, Timeout: o.Timeout,
		MaxBody: o.MaxBody, Pause: o.Pause, Patient: o.Follow, Logger: o.Logger,
		Observe: func(what string) { x.metrics.asked(what) },
	}); err != nil {
		return nil, fmt.Errorf("indexer: %w", err)
	}
	if x.metrics, err = newMetrics(o.Registerer, x); err != nil {
		return nil, fmt.Errorf("indexer: registering metrics: %w", err)
	}
	return x, nil
}

// maxRetry is the longest pause after a failure.
const maxRetry = 15 * time.Second

// Run fills the store up to the head of the chain, and with Follow goes on until
// ctx ends, which then is the error. Endpoints that fail or lag are waited for, as
// is a store that is busy. ErrDiverged ends it, as does ErrOtherChain of a store
// that was filled from elsewhere; without Follow so do all the errors below and a
// store that fails, with Follow they are tried again.
func (x *Indexer) Run(ctx context.Context) error {
	defer x.pool.Close()
	x.status.change(func(s *Status) { *s = Status{Running: true} })
	defer x.status.change(func(s *Status) { s.Running = false })
	retry := x.o.Pause
	for {
		caughtUp, err := x.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case x.final(err):
			x.status.change(func(s *Status) { s.Err, s.Ended = err, true })
			return fmt.Errorf("index: %w", err)
		case err != nil:
			x.halt(err)
			if err := upstream.Sleep(ctx, retry); err != nil {
				return err
			}
			retry = min(2*retry, maxRetry)
			continue
		}
		x.resume()
		retry = x.o.Pause
		if !caughtUp {
			continue
		}
		if !x.o.Follow {
			return nil
		}
		if err := upstream.Sleep(ctx, x.o.Poll); err != nil {
			return err
		}
	}
}

// final reports whether an error ends Run.
func (x *Indexer) final(err error) bool {
	if errors.Is(err, ErrDiverged) || errors.Is(err, ErrOtherChain) {
		return true
	}
	busy := upstream.KindOf(err) == upstream.Overloaded
	return err != nil && !x.o.Follow && !busy && !errors.Is(err, ledger.ErrCursorMoved)
}

// advance takes the store to the head there is now. The cursor is read from the
// store each time: after a failure only the store knows how far it got.
func (x *Indexer) advance(ctx context.Context) (caughtUp bool, err error) {
	cursor, err := x.o.Store.Cursor(ctx)
	if err != nil {
		return false, err
	}
	if err := x.o.Network.filled(cursor); err != nil {
		return false, err
	}
	x.status.change(func(s *Status) {
		if s.Cursor = cursor; s.First == 0 && cursor.Chain != 0 {
			s.First = cursor.Block + 1
		}
	})
	head, err := x.head(ctx, cursor)
	if err != nil {
		return false, err
	}
	x.status.change(func(s *Status) { s.Head = head })
	if cursor.Chain != 0 && cursor.Block == head {
		return true, nil
	}
	next := span{cursor.Block + 1, head}
	if cursor.Chain == 0 {
		if next.from, err = x.start(ctx, head); err != nil {
			return false, err
		}
		x.status.change(func(s *Status) { s.First = next.from })
	}
	if next.from > next.to {
		return true, nil // the first block is yet to come
	}
	return false, x.round(ctx, cursor, next)
}

// head asks for the newest block, which is not below the store's. An endpoint
// that is has not caught up after a restart or a restored snapshot, and is waited
// for: that its chain is another one shows when it gets to the store's block.
func (x *Indexer) head(ctx context.Context, cursor ledger.Cursor) (head int64, err error) {
	var calls []evm.Call
	if cursor.Chain != 0 {
		calls = append(calls, getHeader(cursor.Block))
	}
	began := time.Now()
	err = x.pool.Try(ctx, func(e *evm.Endpoint) error {
		var answers []evm.Answer
		head, answers, err = e.Poll(ctx, cursor.Block, calls...)
		if f, ok := errors.AsType[*evm.Failure](err); ok && f.Reason == evm.Lagging && time.Since(began) > x.o.Grace {
			x.halt(fmt.Errorf("%w: the store is at block %d and waits for %s: %w", errLagging, cursor.Block, e.Name(), f))
		}
		if err != nil || cursor.Chain == 0 {
			return err
		}
		return unchanged(answers[0], cursor)
	})
	return head, err
}

// unchanged checks that the block the store is at is still the same.
func unchanged(a evm.Answer, cursor ledger.Cursor) error {
	if a.Err != nil {
		return a.Err
	}
	h, err := readHeader(a.Result, cursor.Block)
	if err != nil {
		return err
	}
	if h.hash != cursor.Hash {
		return diverged(cursor, h.hash)
	}
	return nil
}
