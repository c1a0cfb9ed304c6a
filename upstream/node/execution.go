package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node/heights/comet"
)

// ErrNoExecution is what is said of the execution client's blocks where no node
// can tell of them: none has CometBFT, or the chain has no execution client.
var ErrNoExecution = errors.New("no node tells which block of an execution client a block carries")

// execution remembers which block of the execution client a block carries: the
// last that was asked for, which is the newest.
type execution struct {
	asked  singleflight.Group
	newest atomic.Pointer[carried]
}

type carried struct{ epoch, height, number int64 }

// Executed is the newest block of the execution client whose effects are in the
// state of a block: the one before the block that it carries. Errors are
// ErrNoExecution or an *upstream.Error.
func (p *Pool) Executed(ctx context.Context, height int64) (int64, error) {
	epoch := p.Tip().Epoch
	if known := p.execution.newest.Load(); known != nil && known.epoch == epoch && known.height == height {
		return known.number - 1, nil
	}
	found := p.execution.asked.DoChan(strconv.FormatInt(height, 10), func() (any, error) {
		number, err := p.carriedBy(context.WithoutCancel(ctx), height)
		if err == nil {
			p.execution.newest.Store(&carried{epoch, height, number})
		}
		return number, err
	})
	select {
	case r := <-found:
		if r.Err != nil {
			return 0, r.Err
		}
		return r.Val.(int64) - 1, nil //nolint:forcetypeassert // see above
	case <-ctx.Done():
		return 0, p.late(ctx, height)
	}
}

// carriedBy asks the nodes in turn. One that answers speaks for the chain: they all have the same block.
func (p *Pool) carriedBy(ctx context.Context, height int64) (int64, error) {
	var failures []error
	for _, e := range p.endpoints {
		if e.comet == nil {
			continue
		}
		number, err := e.carriedBy(ctx, height)
		switch {
		case err == nil:
			return number, nil
		case errors.Is(err, comet.ErrNoPayload):
			return 0, ErrNoExecution
		}
		failures = append(failures, fmt.Errorf("%s: %w", e.name, err))
	}
	if failures == nil {
		return 0, ErrNoExecution
	}
	return 0, &upstream.Error{Kind: upstream.Unreachable, Msg: "no chain node tells of block " + strconv.FormatInt(height, 10), Err: errors.Join(failures...)}
}

// carriedBy asks the node's CometBFT, unless that is known to be away.
func (e *endpoint) carriedBy(ctx context.Context, height int64) (int64, error) {
	switch v := e.look(); {
	case v.Foreign():
		return 0, errWrongChain
	case v.CometDown:
		return 0, v.CometErr
	default:
		return e.comet.ExecutionBlock(ctx, height)
	}
}
