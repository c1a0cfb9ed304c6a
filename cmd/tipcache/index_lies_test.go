package main

import (
	"context"
	"io"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestAnExecutionClientThatLiesOrDropsLogsCostsNothing(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	url := "sqlite:" + t.TempDir() + "/c.db"
	store := openURL(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"index", "--evm", d.EVMURL(), "--store", url, "--network", "aeneid", "--follow"}, streams{io.Discard, io.Discard})
	}()
	counted := func(what string) {
		t.Helper()
		(&running{t: t}).eventually(what, func() bool {
			cursor, err := store.Cursor(t.Context())
			return err == nil && cursor.Block == d.EVM().Height()
		})
		expectChain(t, store, d)
	}
	counted("at the head")
	for _, fault := range []devnet.Fault{{DropLogs: true}, {WrongHashes: true}} {
		if err := d.EVM().SetFault(fault); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			d.Advance(3)
			if fault.DropLogs {
				counted("counted without the logs of ranges")
			}
		}
		if err := d.EVM().SetFault(devnet.Fault{}); err != nil {
			t.Fatal(err)
		}
		counted("at the head once the client tells the truth")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
