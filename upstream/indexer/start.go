package indexer

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/ledger"
)

// start is the first block to read for a store without a cursor: the one in
// which the first of the contracts appears. It takes as many requests as the
// number of the head has binary digits, and an endpoint that keeps the state
// of old blocks.
func (x *Indexer) start(ctx context.Context, head int64) (int64, error) {
	if x.o.From > 0 {
		return x.o.From, nil
	}
	low, high := int64(0), head // high: the contracts are there, unless it is head
	found, err := x.deployed(ctx, head)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("%w: none of the contracts is there at block %d", ErrNoStart, head)
	}
	for low < high {
		middle := low + (high-low)/2
		if found, err = x.deployed(ctx, middle); err != nil {
			return 0, err
		}
		if found {
			high = middle
		} else {
			low = middle + 1
		}
	}
	x.log.Info("found the first block", "block", high)
	return high, nil
}

// errNoState tells the refusal of one call from an answer that makes no sense,
// which may be better the next time.
var errNoState = errors.New("the state is not told")

// deployed reports whether any contract has code at a block.
func (x *Indexer) deployed(ctx context.Context, block int64) (found bool, err error) {
	refusals := 0
	err = x.fleet.try(ctx, func(e *endpoint) error {
		found, err = hasCode(ctx, e, x.o.Network.contracts(), block)
		// State that was pruned is not there at the second try either.
		if t, ok := errors.AsType[*trouble](err); ok && t.reason == refused && errors.Is(err, errNoState) {
			if refusals++; refusals > 2*len(x.fleet.endpoints) {
				return fmt.Errorf("%w: %s does not tell the state at block %d; name the first block (%w)", ErrNoStart, e.name, block, t.err)
			}
		}
		return err
	})
	return found, err
}

func hasCode(ctx context.Context, e *endpoint, contracts []ledger.Address, block int64) (bool, error) {
	calls := []call{{method: "eth_blockNumber"}}
	for _, c := range contracts {
		calls = append(calls, call{"eth_getCode", []any{c.String(), hexQuantity(block)}})
	}
	answers, err := e.each(ctx, calls...)
	if err != nil {
		return false, err
	}
	if _, err := covers(answers[0], block); err != nil {
		return false, err
	}
	for _, a := range answers[1:] {
		code, err := a.text()
		if err != nil {
			return false, fmt.Errorf("%w: %w", errNoState, err)
		}
		if len(code) > len("0x") {
			return true, nil
		}
	}
	return false, nil
}
