// Package faults runs several replicas of tipcache before a simulated chain and a
// real Redis, lets many clients poll a few keys, fails things meanwhile, and holds
// what the clients were answered against what tipcache promises.
package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// plan is what one run does.
type plan struct {
	options                 rig.Options
	replicas, clients, keys int
	lone                    int // more clients, each alone with a key of its own
	length, poll            time.Duration
	nodeLatency             time.Duration
	memory                  int // MiB of cache.memory where clients fill it
}

// flags set what both commands can be told. What the plan says is the default.
func (p *plan) flags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet("bench "+command, flag.ContinueOnError)
	p.nodeLatency = 20 * time.Millisecond
	p.options.AddFlags(fs)
	fs.IntVar(&p.clients, "clients", p.clients, "clients, each on a connection of its own")
	fs.IntVar(&p.keys, "keys", p.keys, "distinct requests")
	fs.DurationVar(&p.poll, "poll", 200*time.Millisecond, "pause of a client between two requests")
	fs.DurationVar(&p.length, "for", p.length, "length of the run, or of the random faults")
	return fs
}

// campaign says which faults to cause.
type campaign struct {
	plan
	names  []string // of scenarios; none: all
	random bool
	clocks bool // jump at random, too
	seed   uint64
}

// Faults causes faults one after another, or at random, and prints for each what
// the clients saw. It is an error when a promise was broken.
//
//	bench faults
//	bench faults lie set-back
//	bench faults -random -seed 7 -for 10m
func Faults(ctx context.Context, args []string) error {
	c := campaign{plan: plan{replicas: 2, clients: 60, keys: 12, length: 10 * time.Minute}}
	fs := c.flags("faults")
	fs.IntVar(&c.memory, "memory", 32, "MiB of cache.memory in the scenarios streams, unread, codings and bodies")
	fs.BoolVar(&c.random, "random", false, "cause faults at random")
	fs.BoolVar(&c.clocks, "clocks", false, "set clocks off at random, too, which needs the standard library built anew")
	fs.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "of the random faults")
	introduction := "bench faults [flags] [scenario ...]\n\nScenarios, all of them unless named:\n "
	for _, s := range scenarios(usual) {
		introduction += " " + s.name
	}
	if err := rig.Parse(fs, introduction, args); err != nil {
		return err
	}
	c.names = fs.Args()
	part := rig.Part{Name: "faults", Needs: []string{"redis-server", "redis-cli", "initdb", "postgres"}, Run: c.run}
	if c.random {
		part.Run = c.runRandom
	}
	return rig.Measure(ctx, c.options, part)
}

func (c *campaign) run(ctx context.Context, r *rig.Rig) {
	chosen := rig.Must(rig.Choose("scenario", scenarios(usual), c.names, func(s scenario) string { return s.name }))
	var rows [][]string
	var broken []error
	for _, s := range chosen {
		err := rig.Try(func() { rows = append(rows, c.runScenario(ctx, r, s, &broken)...) })
		r.Stop()
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", s.name, err))
		}
		if ctx.Err() != nil {
			break
		}
		r.Progress("faults: %s", s.name)
	}
	r.Table(fmt.Sprintf("Faults: %d clients, %d replicas, %d keys, blocks of %v", c.clients, c.replicas, c.keys, blockTime),
		append([]string{"scenario"}, verdictHead...), rows)
	rig.Check(errors.Join(broken...))
}

// warmUp is before the first fault: all keys are cached by then.
const warmUp = 6 * time.Second

// runScenario returns a row for each fault, and adds the promises that were broken.
func (c *campaign) runScenario(ctx context.Context, r *rig.Rig, s scenario, broken *[]error) (rows [][]string) {
	b := newBed(ctx, r, c.plan, s.setup)
	defer b.printNotes(os.Stderr)
	b.drive(ctx, warmUp, func(ctx context.Context) {
		for _, f := range s.faults {
			b.cause(ctx, f)
			b.settle(ctx)
		}
	})
	rig.Check(ctx.Err())
	m := b.model(ctx)
	for _, t := range b.trials {
		row, err := b.row(m, t)
		rows, *broken = append(rows, append([]string{s.name}, row...)), append(*broken, err)
	}
	return rows
}
