package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// An Indexer fills one store. Any number of them may work for the same store,
// though one at a time is enough.
type Indexer struct {
	o       Options
	log     *slog.Logger
	fleet   *fleet
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
	if x.metrics, err = newMetrics(o.Registerer, x); err != nil {
		return nil, fmt.Errorf("indexer: registering metrics: %w", err)
	}
	x.fleet = &fleet{chainID: o.Network.ChainID, pause: o.Pause, patient: o.Follow, log: o.Logger, metrics: x.metrics}
	for _, u := range o.Endpoints {
		e, err := newEndpoint(u, &o)
		if err != nil {
			return nil, err
		}
		x.fleet.endpoints = append(x.fleet.endpoints, e)
	}
	return x, nil
}

// maxRetry is the longest pause after a failure of the store.
const maxRetry = 15 * time.Second

// Run fills the store up to the head of the chain, and with Follow goes on until
// ctx ends, which then is the error. Endpoints that fail are waited for, as is a
// store that is busy. ErrOtherChain, ErrDiverged and ErrNoStart end it; without
// Follow so do ErrForbidden and a store that fails.
func (x *Indexer) Run(ctx context.Context) error {
	defer x.o.client.CloseIdleConnections()
	x.status.begun()
	defer x.status.ended()
	retry := x.o.Pause
	for {
		caughtUp, err := x.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case x.final(err):
			x.status.stopped(err)
			return fmt.Errorf("index: %w", err)
		case err != nil:
			x.log.Warn("the store is read anew", "error", err)
			if err := sleep(ctx, retry); err != nil {
				return err
			}
			retry = min(2*retry, maxRetry)
			continue
		}
		retry = x.o.Pause
		if !caughtUp {
			continue
		}
		if !x.o.Follow {
			return nil
		}
		if err := sleep(ctx, x.o.Poll); err != nil {
			return err
		}
	}
}

// final reports whether an error ends Run.
func (x *Indexer) final(err error) bool {
	for _, end := range []error{ErrOtherChain, ErrDiverged, ErrForbidden, ErrNoStart} {
		if errors.Is(err, end) {
			return true
		}
	}
	silent, ok := errors.AsType[*upstream.Error](err)
	busy := ok && silent.Kind == upstream.Overloaded
	return err != nil && !x.o.Follow && !busy && !errors.Is(err, ledger.ErrCursorMoved)
}

// advance takes the store to the head there is now. The cursor is read from the
// store each time: after a failure only the store knows how far it got.
func (x *Indexer) advance(ctx context.Context) (caughtUp bool, err error) {
	cursor, err := x.o.Store.Cursor(ctx)
	if err != nil {
		return false, err
	}
	if cursor.Chain != 0 && cursor.Chain != x.o.Network.ChainID {
		return false, fmt.Errorf("%w: the store holds chain id %d, the network's is %d", ErrOtherChain, cursor.Chain, x.o.Network.ChainID)
	}
	head, err := x.head(ctx, cursor)
	if err != nil {
		return false, err
	}
	x.status.at(cursor, head)
	if cursor.Chain != 0 && cursor.Block == head {
		return true, nil
	}
	next := span{cursor.Block + 1, head}
	if cursor.Chain == 0 {
		if next.from, err = x.start(ctx, head); err != nil {
			return false, err
		}
		x.status.begin(next.from)
	}
	if next.from > next.to {
		return true, nil // the first block is yet to come
	}
	return false, x.round(ctx, cursor, next)
}

// head asks for the newest block, which is not below the store's. An endpoint
// that is may be lagging, or be of a chain that began anew: that shows when
// none catches up.
func (x *Indexer) head(ctx context.Context, cursor ledger.Cursor) (head int64, err error) {
	began := time.Now()
	err = x.fleet.try(ctx, func(e *endpoint) error {
		calls := []call{{method: "eth_blockNumber"}}
		if cursor.Chain != 0 {
			calls = append(calls, call{"eth_getBlockByNumber", []any{hexQuantity(cursor.Block), false}})
		}
		answers, err := e.each(ctx, calls...)
		if err != nil {
			return err
		}
		head, err = covers(answers[0], cursor.Block)
		if t, ok := errors.AsType[*trouble](err); ok && t.reason == lagging && time.Since(began) > x.o.Grace {
			return fmt.Errorf("%w: the store is at block %d and %s, for %v, is behind that: %w",
				ErrDiverged, cursor.Block, e.name, x.o.Grace, t.err)
		}
		if err != nil || cursor.Chain == 0 {
			return err
		}
		return unchanged(answers[1], cursor)
	})
	return head, err
}

// unchanged checks that the block the store is at is still the same.
func unchanged(a answer, cursor ledger.Cursor) error {
	if a.err != nil {
		return a.err
	}
	h, err := readHeader(a.result, cursor.Block)
	if err != nil {
		return err
	}
	if h.hash != cursor.Hash {
		return diverged(cursor, h.hash)
	}
	return nil
}
