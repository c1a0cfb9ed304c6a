// Command bench measures tipcache beside its peers and alone, and fails what it
// depends on: requests per second, CPU per request and latency, what a node is
// asked, how old answers are, what is held, and what clients see of a fault.
//
//	go run ./cmd/bench                    all that is measured, in about an hour
//	go run ./cmd/bench peers herd         some of it
//	go run ./cmd/bench -short start       see that it works
//	go run ./cmd/bench drive -rolling     replicas under load; see drive -h
//	go run ./cmd/bench faults set-back    what clients see of faults; see faults -h
//
// It starts everything it needs on free ports of 127.0.0.1, from the tools on
// the PATH, and ends all of it. RESULTS.md has what was measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tipcache/tipcache/cmd/bench/faults"
	"github.com/tipcache/tipcache/cmd/bench/load"
	"github.com/tipcache/tipcache/cmd/bench/peers"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/bench/streams"
)

func parts() []rig.Part {
	return []rig.Part{
		peers.Peers(), peers.Herd(), peers.Freshness(), peers.Replay(),
		load.Growth(), load.Collections(), load.Churn(), load.Index(), load.Start(), load.Redis(), load.Warm(), streams.Streams(),
	}
}

// commands have flags of their own.
var commands = map[string]func(ctx context.Context, args []string) error{
	"drive":               faults.Drive,
	"faults":              faults.Faults,
	streams.FanOutCommand: func(_ context.Context, args []string) error { return streams.RunFanOut(args) },
	peers.BareCommand:     func(_ context.Context, args []string) error { return peers.RunBare(args) },
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	if errors.Is(err, rig.ErrUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			return command(ctx, args[1:])
		}
	}
	options, chosen, err := parse(args)
	if err != nil {
		return err
	}
	if err := rig.Lacking(chosen); err != nil {
		return err
	}
	r, err := rig.New(ctx, options)
	if err != nil {
		return err
	}
	defer r.Close()
	r.Note("%s", rig.Machine())
	for _, p := range chosen {
		if err := r.Run(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}
