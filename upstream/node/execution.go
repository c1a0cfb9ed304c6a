package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// ErrNoExecution is what is said of the execution client's blocks where no node
// can tell of them: none has CometBFT, or the chain has no execution client.
var ErrNoExecution = errors.New("no node tells which block of an execution client a block carries")

// Executed says since which block the execution client's block number is known to count in the
// chain's state: the lowest one up to height that is known, 0 where it does not count there; newest
// is the newest that does. A block counts with the one of the chain that carries the next. A node
// is asked only where what it said before does not tell. Errors are ErrNoExecution or an
// *upstream.Error.
func (p *Pool) Executed(ctx context.Context, height, number int64) (since, newest int64, err error) {
	epoch := p.Tip().Epoch
	if since = p.execution.since(epoch, number); 0 < since && since <= height {
		return since, number, nil
	}
	if height == 0 {
		return 0, 0, nil
	}
	newest, ok := p.execution.at(epoch, height)
	if !ok {
		if newest, err = p.askExecuted(ctx, epoch, height); err != nil {
			return 0, 0, err
		}
	}
	if newest < number {
		return 0, newest, nil
	}
	if since = p.execution.since(epoch, number); 0 < since && since <= height {
		return since, newest, nil
	}
	return height, newest, nil // what a node says is not kept where it contradicts what is
}

// askExecuted asks for the newest block of the execution client that counts at a height.
func (p *Pool) askExecuted(ctx context.Context, epoch, height int64) (int64, error) {
	found := p.execution.asked.DoChan(strconv.FormatInt(height, 10), func() (any, error) {
		carried, err := p.carriedBy(context.WithoutCancel(ctx), height)
		if err == nil {
			p.execution.keep(epoch, execution{height, carried - 1})
		}
		return carried - 1, err
	})
	select {
	case r := <-found:
		if r.Err != nil {
			return 0, r.Err
		}
		return r.Val.(int64), nil //nolint:forcetypeassert // see above
	case <-ctx.Done():
		return 0, p.late(ctx, height)
	}
}

// carriedBy asks the nodes in turn. One that answers speaks for the chain: they all have the same block.
func (p *Pool) carriedBy(ctx context.Context, height int64) (int64, error) {
	var failures []error
	for _, e := range p.endpoints() {
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

// mostExecutions is how many blocks are remembered: those of some hours.
const mostExecutions = 4096

// An execution is the newest block of the execution client that counts at a height.
type execution struct{ height, newest int64 }

// executions are those of an epoch, by height. Neither number falls from one to the next.
type executions struct {
	asked singleflight.Group

	mu    sync.Mutex
	epoch int64
	all   []execution
}

// since is the lowest height at which a block is known to count, 0 for none.
func (e *executions) since(epoch, number int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, _ := slices.BinarySearchFunc(e.all, number, func(x execution, number int64) int { return cmp.Compare(x.newest, number) })
	if epoch != e.epoch || i == len(e.all) {
		return 0
	}
	return e.all[i].height
}

// at is the newest block that counts at a height; ok is false where that is not known.
func (e *executions) at(epoch, height int64) (newest int64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.place(height)
	if !ok || epoch != e.epoch {
		return 0, false
	}
	return e.all[i].newest, true
}

// keep remembers an execution of an epoch, unless it contradicts what is known.
func (e *executions) keep(epoch int64, x execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch < e.epoch {
		return
	}
	if epoch > e.epoch {
		e.epoch, e.all = epoch, nil
	}
	i, known := e.place(x.height)
	if known || i > 0 && e.all[i-1].newest > x.newest || i < len(e.all) && e.all[i].newest < x.newest {
		return
	}
	if e.all = slices.Insert(e.all, i, x); len(e.all) > mostExecutions {
		e.all = slices.Delete(e.all, 0, 1)
	}
}

// place is where the execution of a height is, or would be. Call with mu held.
func (e *executions) place(height int64) (i int, known bool) {
	return slices.BinarySearchFunc(e.all, height, func(x execution, height int64) int { return cmp.Compare(x.height, height) })
}
