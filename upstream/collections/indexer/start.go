package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// start is the first block to read for a store without a cursor: the one in
// which the first of the contracts appears. It takes as many requests as the
// number of the head has binary digits. Of an endpoint that keeps no state of old
// blocks it is found out as far as that goes: logs are kept longer, and blocks
// without any are read quickly.
func (x *Indexer) start(ctx context.Context, head int64) (int64, error) {
	if err := x.checkContracts(ctx, head); err != nil {
		return 0, err
	}
	if x.o.From > 0 {
		return x.o.From, nil
	}
	low, high := int64(0), head // high: a contract is there; below low: none is
	var by *evm.Endpoint
	for low < high {
		middle := low + (high-low)/2
		var codes []bool
		var err error
		codes, by, err = x.codes(ctx, nil, middle)
		switch {
		case errors.Is(err, errNoState):
			x.log.Info("old state is not kept: logs are read from the first block in which a contract may be", "block", low, "head", head, "error", err)
			return low, nil
		case err != nil:
			return 0, err
		case slices.Contains(codes, true):
			high = middle
		default:
			low = middle + 1
		}
	}
	if err := x.checkStart(ctx, by, high); err != nil {
		return 0, err
	}
	x.log.Info("found the first block", "block", high)
	return high, nil
}

// checkStart asks again, another endpoint where there is one, whether contracts
// begin at a block: one wrong answer would have led astray, for good.
func (x *Indexer) checkStart(ctx context.Context, by *evm.Endpoint, first int64) error {
	for block := max(first-1, 0); block <= first; block++ {
		codes, other, err := x.codes(ctx, by, block)
		if errors.Is(err, errNoState) {
			return nil // no other can tell
		}
		if err != nil {
			return err
		}
		if slices.Contains(codes, true) != (block == first) {
			return fmt.Errorf("%w: whether there is a contract at block %d: %s says that there is, or not, unlike before", errInconsistent, block, other.Name())
		}
	}
	return nil
}

// checkContracts makes sure that each address is one of a contract, as far as the
// endpoints tell.
func (x *Indexer) checkContracts(ctx context.Context, head int64) error {
	codes, by, err := x.codes(ctx, nil, head)
	if err == nil && slices.Contains(codes, false) {
		codes, _, err = x.codes(ctx, by, head)
	}
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

// errNoState tells the refusal of one call from an answer that makes no sense,
// which may be better the next time.
var errNoState = errors.New("the state is not told")

// codes reports of each contract whether it has code at a block, and which endpoint
// says so, another one than one where there is one. The error is
// errNoState where the endpoints keep on refusing to tell: state that was pruned
// is not there at the second try either.
func (x *Indexer) codes(ctx context.Context, than *evm.Endpoint, block int64) (codes []bool, by *evm.Endpoint, err error) {
	refusals := 0
	err = x.pool.TryOther(ctx, than, func(e *evm.Session) error {
		by = e.Endpoint
		codes, err = haveCode(ctx, e, x.o.Network.contracts(), block)
		if f, ok := errors.AsType[*evm.Failure](err); ok && f.Reason == evm.Refused && errors.Is(err, errNoState) {
			if refusals++; refusals > 2*x.pool.Len() {
				return fmt.Errorf("%w at block %d: %s: %s", errNoState, block, e.Name(), f.Error())
			}
			return evm.Lag("the state at block %d: %w", block, f) // it is well, and another may have it
		}
		return err
	})
	return codes, by, err
}

func haveCode(ctx context.Context, e *evm.Session, contracts [3]ledger.Address, block int64) ([]bool, error) {
	var calls []evm.Call
	for _, c := range contracts {
		calls = append(calls, evm.Call{Method: "eth_getCode", Params: []any{c.String(), evm.Hex(block)}})
	}
	_, answers, err := e.AtHead(ctx, block, calls...)
	if err != nil {
		return nil, err
	}
	codes := make([]bool, len(contracts))
	for i, a := range answers {
		code, err := a.Text()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoState, err)
		}
		codes[i] = len(code) > len("0x")
	}
	return codes, nil
}
