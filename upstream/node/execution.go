package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// ErrNoExecution is the error if no node has CometBFT, or if the chain has no execution client.
var ErrNoExecution = errors.New("no node provides the execution client's block numbers")

// Executed returns the lowest known height, up to height, at which the chain's state includes the execution client's block with
// this number, or 0 if the state at height does not include it. newest is the newest execution block included at height, or
// just number if no node was read. A block of the chain contains one execution block, and its state includes the execution
// blocks before that one. Executed reads a node only if no known height answers the question, in turn with other reads for the
// client. Errors are ErrNoExecution or an *upstream.Error.
func (p *Pool) Executed(ctx context.Context, client string, height, number int64) (since, newest int64, err error) {
	epoch := p.Tip().Epoch
	if since = p.execution.since(epoch, number); 0 < since && since <= height {
		return since, number, nil
	}
	if height == 0 {
		return 0, 0, nil
	}
	newest, ok := p.execution.at(epoch, height)
	if !ok {
		if newest, err = p.fetchExecuted(ctx, client, epoch, height); err != nil {
			return 0, 0, err
		}
	}
	if newest < number {
		return 0, newest, nil
	}
	return height, newest, nil
}

func (p *Pool) fetchExecuted(ctx context.Context, client string, epoch, height int64) (int64, error) {
	if height == p.Tip().Height {
		client = executionReader
	}
	for {
		found := p.execution.flights.DoChan(fmt.Sprintf("%d %d %s", epoch, height, client), func() (any, error) {
			var number int64
			err := upstream.Guard(p.options.Logger, "execution block", func() (err error) {
				number, err = p.executionBlock(context.WithoutCancel(ctx), client, height)
				return err
			})
			switch {
			case err == nil:
				p.execution.add(epoch, execution{height, number - 1})
			case errors.Is(err, upstream.ErrBehind):
				_ = upstream.Sleep(p.life, behindPause)
			}
			return number - 1, err
		})
		select {
		case r := <-found:
			tip := p.Tip()
			if waits := errors.Is(r.Err, upstream.ErrBehind) && tip.Epoch == epoch && tip.Height >= height && p.life.Err() == nil; waits {
				continue // until a node has the block of the chain
			}
			return r.Val.(int64), r.Err //nolint:forcetypeassert // see above
		case <-ctx.Done():
			return 0, p.late(ctx, height)
		}
	}
}

// behindPause is the time between two reads of a block that the node lacks. All callers share it.
const behindPause = 100 * time.Millisecond

// executionBlock reads the execution block in a block from the first node that responds. The error wraps upstream.ErrBehind if a node
// does not have the block yet.
func (p *Pool) executionBlock(ctx context.Context, client string, height int64) (int64, error) {
	if !p.protocol.executes {
		return 0, ErrNoExecution
	}
	all := p.CometBFT()
	reached := func(c CometBFT) int64 { return min(c.endpoint.snapshot().Height, height) }
	slices.SortStableFunc(all, func(a, b CometBFT) int { return cmp.Compare(reached(b), reached(a)) }) // one without the block may hang
	var failures []error
	for _, c := range all {
		number, err := c.endpoint.executionBlock(ctx, client, height)
		switch {
		case err == nil:
			return number, nil
		case errors.Is(err, comet.ErrNoPayload):
			return 0, ErrNoExecution
		}
		if refusal, ok := errors.AsType[*comet.Refusal](err); ok {
			if reason, _ := classify(cometRPC, refusal.Data, height); reason == FutureHeight {
				err = fmt.Errorf("%w: %w", upstream.ErrBehind, err)
			}
		}
		failures = append(failures, fmt.Errorf("%s: %w", c.Name(), err))
	}
	if failures == nil {
		return 0, ErrNoExecution
	}
	err := errors.Join(failures...)
	return 0, &upstream.Error{Kind: cmp.Or(upstream.KindOf(err), upstream.Unreachable), Msg: "no chain node could read block " + strconv.FormatInt(height, 10), Err: err}
}

// executionReader is the client of reads of the tip's execution block in the queue of a node. All callers share these reads.
const executionReader = "execution blocks"

// executionBlock reads the execution block in a block from the node's CometBFT when it has its turn, unless CometBFT is known
// to be down.
func (e *endpoint) executionBlock(ctx context.Context, client string, height int64) (number int64, err error) {
	switch v := e.snapshot(); {
	case v.Foreign():
		return 0, errWrongChain
	case v.CometDown:
		return 0, v.CometErr
	default:
		_, err = e.inTurn(ctx, Request{Cost: Page, Client: client}, func() (*Answer, error) {
			number, err = e.comet.ExecutionBlock(ctx, height)
			return nil, err
		})
		return number, err
	}
}

// maxExecutions is the number of blocks kept, which covers some hours.
const maxExecutions = 4096

// An execution is the newest execution block included at a height.
type execution struct{ height, newest int64 }

// executions holds the executions of an epoch, ordered by height and by newest.
type executions struct {
	flights singleflight.Group

	mu    sync.Mutex
	epoch int64
	all   []execution
}

// since returns the lowest known height whose state includes an execution block, or 0.
func (e *executions) since(epoch, number int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, _ := slices.BinarySearchFunc(e.all, number, func(x execution, number int64) int { return cmp.Compare(x.newest, number) })
	if epoch != e.epoch || i == len(e.all) {
		return 0
	}
	return e.all[i].height
}

func (e *executions) at(epoch, height int64) (newest int64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.search(height)
	if !ok || epoch != e.epoch {
		return 0, false
	}
	return e.all[i].newest, true
}

// add adds an execution of an epoch unless it contradicts the known ones.
func (e *executions) add(epoch int64, x execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch < e.epoch {
		return
	}
	if epoch > e.epoch {
		e.epoch, e.all = epoch, nil
	}
	i, known := e.search(x.height)
	if known || i > 0 && e.all[i-1].newest > x.newest || i < len(e.all) && e.all[i].newest < x.newest {
		return
	}
	if e.all = slices.Insert(e.all, i, x); len(e.all) > maxExecutions {
		e.all = slices.Delete(e.all, 0, 1)
	}
}

// search returns the index of a height, or where it belongs. The caller must hold mu.
func (e *executions) search(height int64) (i int, known bool) {
	return slices.BinarySearchFunc(e.all, height, func(x execution, height int64) int { return cmp.Compare(x.height, height) })
}
