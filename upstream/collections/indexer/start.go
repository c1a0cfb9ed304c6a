package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// start returns the first block to read for an empty store: the block in which the first of the contracts appears. It
// uses binary search. If the endpoints have pruned old state, it returns the first possible block, because endpoints keep
// logs longer than state.
func (x *Indexer) start(ctx context.Context, head int64) (int64, error) {
	if err := x.checkContracts(ctx, head); err != nil {
		return 0, err
	}
	if x.o.From > 0 {
		return x.o.From, nil
	}
	if err := x.checkNotImported(ctx); err != nil {
		return 0, err
	}
	first, err := x.search(ctx, head)
	for err == nil && first > 0 {
		var codes []bool
		if codes, err = x.deployed(ctx, first-1, 4); err != nil || !slices.Contains(codes, true) {
			break
		}
		first, err = x.search(ctx, first-1) // a wrong response misled the search
	}
	if errors.Is(err, errNoState) {
		x.log.Info("client has pruned old state, reading logs from the first possible block", "block", first, "head", head, "error", err)
		return first, nil
	}
	if err != nil {
		return 0, err
	}
	x.log.Info("found the first block", "block", first)
	return first, nil
}

// checkNotImported returns ErrImported if a store without a cursor has collections. Their events would be counted twice.
func (x *Indexer) checkNotImported(ctx context.Context) error {
	m, err := x.o.Store.Mark(ctx)
	switch {
	case err != nil || m.Total == 0:
		return err
	case m.Cursor.Chain != 0:
		return ledger.ErrCursorMoved // another indexer has begun meanwhile
	}
	return fmt.Errorf("%w (%d): use an empty store, or set index.from to the first block after the imported data, so that no event counts twice",
		ErrImported, m.Total)
}

// search returns the first block up to high with a contract. With an error it returns a block at or below that block.
func (x *Indexer) search(ctx context.Context, high int64) (int64, error) {
	low := int64(0) // no contract exists below low, and one exists at high
	for low < high {
		middle := low + (high-low)/2
		codes, err := x.deployed(ctx, middle, 2)
		switch {
		case err != nil:
			return low, err
		case slices.Contains(codes, true):
			high = middle
		default:
			low = middle + 1
		}
	}
	return high, nil
}

// deployed reports for each contract whether it has code at a block. If one has none, deployed reads it up to the given
// number of times, from other endpoints if there are any. Endpoints that lag or serve another chain return no code, and then
// logs would be missing permanently.
func (x *Indexer) deployed(ctx context.Context, block int64, times int) ([]bool, error) {
	codes, by, err := x.codes(ctx, nil, block)
	for ; err == nil && times > 1 && slices.Contains(codes, false); times-- {
		var more []bool
		more, by, err = x.codes(ctx, by, block)
		for i := range more {
			codes[i] = codes[i] || more[i]
		}
	}
	return codes, err
}

// checkContracts checks that each address has code, unless the endpoints have no state.
func (x *Indexer) checkContracts(ctx context.Context, head int64) error {
	codes, err := x.deployed(ctx, head, 2)
	if errors.Is(err, errNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, c := range x.o.Network.contracts() {
		if !codes[i] {
			return fmt.Errorf("%w: %v has no code at block %d of chain %d", ErrNoContract, c, head, x.o.Network.ChainID)
		}
	}
	return nil
}

// errNoState is the error of endpoints that refuse to read the state at a block.
var errNoState = errors.New("state is not available")

// codes reports for each contract whether it has code at a block. It reads from an endpoint other than except if there is
// one, and returns it. The error is errNoState if the endpoints keep refusing.
func (x *Indexer) codes(ctx context.Context, except *evm.Endpoint, block int64) (codes []bool, by *evm.Endpoint, err error) {
	refusals := 0
	err = x.tryOther(ctx, except, 0, func(e *evm.Session) error {
		by = e.Endpoint
		_, codes, err = x.o.Network.HaveCode(ctx, e, block, evm.Hex(block))
		if f, ok := errors.AsType[*evm.Failure](err); ok && f.Reason == evm.Refused && errors.Is(err, errNoState) {
			if refusals++; refusals > 2*x.pool.Len() {
				return fmt.Errorf("%w at block %d: %s: %s", errNoState, block, e.Endpoint.Name(), f.Error())
			}
			return evm.Lag("the state at block %d: %w", block, f) // the endpoint works, and another one may have the state
		}
		return err
	})
	return codes, by, err
}

// HaveCode reports for each contract whether it has code in a state of an endpoint that has reached a block. It also returns
// the endpoint's head.
func (n *Network) HaveCode(ctx context.Context, e *evm.Session, block int64, state string) (head int64, codes []bool, err error) {
	var calls []evm.Call
	for _, c := range n.contracts() {
		calls = append(calls, evm.Call{Method: "eth_getCode", Params: []any{c.String(), state}})
	}
	head, answers, err := e.AtHead(ctx, block, calls...)
	if err != nil {
		return head, nil, err
	}
	for _, a := range answers {
		code, err := a.Text()
		if err != nil {
			return head, nil, fmt.Errorf("%w: %w", errNoState, err)
		}
		codes = append(codes, len(code) > len("0x"))
	}
	return head, codes, nil
}
