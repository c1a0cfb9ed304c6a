package faults

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// startIndex has a store of its own filled from the execution client, until it has come up
// with the chain.
func (b *bed) startIndex(ctx context.Context) error {
	b.indexed = "sqlite:" + filepath.Join(b.Dir, "index-"+rig.Port(b.chain.EVMURL())+".db")
	if _, _, err := b.Index(ctx, b.chain, b.indexed, nil, "--follow", "--network", "aeneid"); err != nil {
		return err
	}
	return b.caughtUp(ctx)
}

// caughtUp waits until the store holds what the chain has come to. No block comes meanwhile.
func (b *bed) caughtUp(ctx context.Context) error {
	b.chain.Halt()
	defer b.chain.Resume()
	return rig.Eventually(ctx, func(ctx context.Context) error { return rig.Indexed(ctx, b.chain, b.indexed) })
}

// executionFaults are the ways in which an execution client fails.
func executionFaults(hold time.Duration) []fault {
	return []fault{
		executionFault("no logs", devnet.Fault{DropLogs: true}, hold), executionFault("other hashes", devnet.Fault{WrongHashes: true}, hold),
		executionFault("nonsense", devnet.Fault{Nonsense: true}, hold), executionFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, hold),
	}
}

// executionFault fails the execution client for a time, of which nothing stays in the store.
func executionFault(name string, f devnet.Fault, hold time.Duration) fault {
	return fault{name: "execution client: " + name, hold: hold, do: func(ctx context.Context, b *bed, last func()) error {
		if err := b.chain.EVM().SetFault(f); err != nil {
			return err
		}
		last()
		if err := b.chain.EVM().SetFault(devnet.Fault{}); err != nil {
			return err
		}
		mended := time.Now()
		if err := b.caughtUp(ctx); err != nil {
			return err
		}
		b.note("the store is right %.1f s after that", time.Since(mended).Seconds())
		return nil
	}}
}
