package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// WaitHeight returns nil as soon as the tip is at least height. Otherwise the
// error is an *upstream.Error of kind Timeout, or context.Canceled.
func (p *Pool) WaitHeight(ctx context.Context, height int64) error {
	for {
		moved := p.chain.Moved()
		if p.Tip().Height >= height {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return p.late(ctx, height)
		case <-p.life.Done():
			return unreachable(errClosed)
		}
	}
}

// late is the error for a block that did not come before ctx ended.
func (p *Pool) late(ctx context.Context, height int64) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	msg := fmt.Sprintf("%s does not have block %d yet", origin, height)
	if height == 0 {
		msg = origin + " has not answered yet"
	}
	return &upstream.Error{
		Kind: upstream.Timeout, Msg: msg, Err: ctx.Err(), RetryAfter: max(p.Tip().Interval, time.Second),
	}
}
