package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// head returns the newest block. It waits for an endpoint below the store's block, which may be catching up after a restart.
// Without Follow it waits only for Options.Grace. When it reaches the store's block, the hash shows whether its chain is the
// same. It also returns the endpoint.
func (x *Indexer) head(ctx context.Context, cursor ledger.Cursor) (head int64, by *evm.Endpoint, err error) {
	var calls []evm.Call
	if cursor.Chain != 0 {
		calls = append(calls, getHeader(cursor.Block))
	}
	began, contradictions := time.Now(), 0
	err = x.tryOther(ctx, nil, 0, func(e *evm.Session) error {
		var answers []evm.Answer
		by = e.Endpoint
		head, answers, err = e.Poll(ctx, cursor.Block, calls...)
		if f, ok := errors.AsType[*evm.Failure](err); ok && f.Reason == evm.Lagging && time.Since(began) > x.o.Grace {
			lagging := fmt.Errorf("%w: the store is at block %d and waits for %s: %s", errLagging, cursor.Block, e.Endpoint.Name(), f.Error())
			if !x.o.Follow {
				return lagging
			}
			x.setErr(lagging)
		}
		if err != nil || cursor.Chain == 0 {
			return err
		}
		if answers[0].Err != nil {
			return answers[0].Err
		}
		h, err := parseHeader(answers[0].Result, cursor.Block)
		if err != nil {
			return err
		}
		if _ = e.Endpoint.RecordHash(cursor.Block, h.hash); h.hash == cursor.Hash {
			return nil // even if an earlier response differed
		}
		if contradictions++; contradictions >= maxContradictions*x.pool.Len() {
			return diverged(cursor, h.hash)
		}
		return evm.Contradiction("block %d is %v, the store has %v", cursor.Block, h.hash, cursor.Hash).Doubting(calls...)
	})
	return head, by, err
}

// laterHead asks the other endpoints for later blocks while by stands at the store's block, for example because its consensus client
// has ended. It returns the newest block of the first one whose chain continues the store's block, and otherwise the store's block.
// With Follow, it asks only if nothing was applied for Options.Grace, and once in this time.
func (x *Indexer) laterHead(ctx context.Context, cursor ledger.Cursor, by *evm.Endpoint) (head int64, err error) {
	if cursor != x.at {
		x.at, x.still = cursor, time.Now()
	}
	if x.pool.Len() == 1 || x.o.Follow && time.Since(x.still) < x.o.Grace {
		return cursor.Block, nil
	}
	x.still = time.Now()
	next, asked := cursor.Block+1, map[*evm.Endpoint]bool{by: true}
	err = x.pool.TryOther(ctx, by, 0, func(e *evm.Session) error {
		if head = cursor.Block; asked[e.Endpoint] {
			return nil
		}
		newest, answers, err := e.Poll(ctx, next, getHeader(next))
		results, err := evm.Results(answers, err)
		if err == nil {
			if h, invalid := parseHeader(results[0], next); invalid == nil && h.parent == cursor.Hash {
				head = newest
				return nil
			}
		} else if f, ok := errors.AsType[*evm.Failure](err); !ok || f.Reason != evm.Lagging {
			return err
		}
		if asked[e.Endpoint] = true; len(asked) == x.pool.Len() {
			return nil
		}
		return evm.Lag("it has no block after %d of the store", cursor.Block) // the pool uses the next one
	})
	if err == nil && head > cursor.Block {
		x.log.Warn("an execution client stands still, another one has later blocks", "endpoint", by.Name(), "block", cursor.Block, "head", head)
	}
	return head, err
}
