package faults

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A node whose execution client hangs makes no block. Its /abci_info blocks for most
// of a period, as that of a real node does; /status answers at once.
const (
	hangPeriod = 12 * time.Second
	hangBlocks = 9 * time.Second
)

// hang has the execution clients of all nodes hang.
func hang(hold time.Duration) fault {
	var stop context.CancelFunc
	var ended chan error
	return fault{
		name: "/abci_info blocks 9 s of 12",
		begin: func(ctx context.Context, b *bed) error {
			b.chain.Halt()
			ctx, stop = context.WithCancel(ctx)
			ended = make(chan error, 1)
			go func() { ended <- b.hangAndAgain(ctx) }()
			return nil
		},
		hold: hold,
		end: func(_ context.Context, b *bed) error {
			stop()
			if err := <-ended; err != nil {
				return err
			}
			b.chain.Resume()
			return nil
		},
	}
}

// hangAndAgain has /abci_info block, time and again, until ctx ends.
func (b *bed) hangAndAgain(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := b.setHang(true); err != nil {
			return err
		}
		rig.Pause(ctx, hangBlocks)
		if err := b.setHang(false); err != nil {
			return err
		}
		rig.Pause(ctx, hangPeriod-hangBlocks)
	}
	return nil
}

func (b *bed) setHang(yes bool) error {
	for _, n := range b.nodes {
		if err := n.SetFaults(devnet.Fault{Latency: b.plan.nodeLatency}, devnet.Fault{HangInfo: yes}); err != nil {
			return err
		}
	}
	return nil
}
