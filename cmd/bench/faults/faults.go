// Package faults runs replicas of tipcache in front of a simulated chain and a real Redis, lets many clients poll a few
// keys, causes failures meanwhile, and checks the responses against the promises of tipcache.
package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A campaign holds the flags of a run.
type campaign struct {
	options                 rig.Options
	replicas, clients, keys int
	length                  time.Duration // of the random faults, or of an attack
	requests                int           // of the hostile client
	seed                    uint64
	short, random           bool
}

// Faults causes faults one after another, or at random, and prints the findings for each. It returns an error if a
// promise was broken.
func Faults(ctx context.Context, args []string) error {
	c := campaign{replicas: 2, clients: 60}
	return c.command(ctx, "faults", args, c.scenarios, func(fs *flag.FlagSet) {
		fs.IntVar(&c.requests, "requests", 100_000, "requests of the hostile client")
		fs.BoolVar(&c.random, "random", false, "cause faults at random")
		fs.DurationVar(&c.length, "for", 10*time.Minute, "length of the random faults")
		fs.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "of the random faults and of the hostile client")
	})
}

// Memory lets hostile clients fill the memory of a replica through each of its listeners. It returns an error
// if the process takes more than the documented bound, or if a promise to other clients was broken.
func Memory(ctx context.Context, args []string) error {
	c := campaign{replicas: 1, clients: 20}
	return c.command(ctx, "memory", args, c.attacks, func(fs *flag.FlagSet) {
		fs.BoolVar(&c.short, "short", false, "one attack of each listener for 4 s, next to 32 MiB of cache.memory")
		fs.DurationVar(&c.length, "for", 0, "length of each attack; 0 means 10 s, or 4 s with -short")
	})
}

// command reads the flags of a command and runs the scenarios that they choose.
func (c *campaign) command(ctx context.Context, name string, args []string, all func() []scenario, addFlags func(*flag.FlagSet)) error {
	fs := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	c.options.AddFlags(fs)
	fs.IntVar(&c.replicas, "replicas", c.replicas, "tipcache processes")
	fs.IntVar(&c.clients, "clients", c.clients, "clients that poll, each on a connection of its own")
	fs.IntVar(&c.keys, "keys", 12, "distinct requests of these clients")
	addFlags(fs)
	var names []string
	for _, s := range all() {
		if !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	if err := rig.Parse(fs, "bench "+name+" [flags] [scenario ...]\n\nScenarios, all of them unless named:\n  "+strings.Join(names, " "), args); err != nil {
		return err
	}
	chosen, err := rig.Choose("scenario", all(), fs.Args(), func(s scenario) string { return s.name })
	if err != nil {
		return err
	}
	if c.random {
		chosen = []scenario{{name: fmt.Sprintf("random, seed %d", c.seed), setup: setup{redis: oneRedis, nodes: 2, links: true, stops: true, memory: 32}}}
	}
	return rig.Measure(ctx, c.options, rig.Part{Name: name, Run: func(ctx context.Context, r *rig.Rig) { c.run(ctx, r, chosen) }})
}

func (c *campaign) run(ctx context.Context, r *rig.Rig, chosen []scenario) {
	var rows, loads [][]string
	for _, s := range chosen {
		if err := rig.Try(func() {
			verdicts, load := c.try(ctx, r, s)
			rows, loads = append(rows, verdicts...), append(loads, load)
		}); err != nil {
			r.Broken(fmt.Errorf("%s: %w", s.name, err))
		}
		r.Stop()
		if ctx.Err() != nil {
			break
		}
		r.Progress("%s", s.name)
	}
	r.Table(fmt.Sprintf("Faults: %d clients, %d replicas, %d keys, blocks of %v", c.clients, c.replicas, c.keys, blockTime),
		slices.Concat([]string{"scenario", "fault", "answers"}, clients.Findings, []string{"fresh again after s"}), rows)
	r.Table(fmt.Sprintf("Load: a node that takes %v", nodeLatency), loadHead, loads)
}

// warmUp is the time before the first fault, in which all keys are cached.
const warmUp = 6 * time.Second

// try returns a row for each fault of a scenario. If a fault cannot be caused, the ones before it are judged.
func (c *campaign) try(ctx context.Context, r *rig.Rig, s scenario) (rows [][]string, load []string) {
	b := newBed(ctx, r, c, s.setup)
	r.Broken(rig.Try(func() {
		b.drive(ctx, warmUp, func(ctx context.Context) {
			for _, f := range s.faults {
				b.cause(ctx, f)
				b.settle(ctx)
			}
			if c.random {
				c.causeRandom(ctx, b)
			}
		})
	}))
	rig.Check(ctx.Err())
	b.learn(ctx)
	m := &clients.Model{Forks: b.forks, Grace: freshWithin, Lost: b.lost, Any: b.unpinned}
	trials := b.trials
	if n := len(trials); c.random && n > 0 {
		trials = append(trials, trial{name: "all of them", began: trials[0].began, mended: trials[n-1].mended})
	}
	for _, t := range trials {
		row, err := b.row(m, t)
		rows = append(rows, slices.Insert(row, 0, s.name))
		r.Broken(err)
	}
	r.Broken(b.controlled(m))
	load, err := b.load(s)
	r.Broken(err)
	return rows, load
}

// atBlockWindow is how long after a new block a request counts as sent at the block change.
const atBlockWindow = 250 * time.Millisecond

var loadHead = []string{"scenario", "answers", "p50 ms", "p99 ms", fmt.Sprintf("p99 ms within %v after a block", atBlockWindow), "node requests per key and block", "most"}

// someTwice is the maximum number of node reads per key and block. On a busy machine a replica may renew its lease too
// late, and another one reads as well. Without leases each replica would read once.
const someTwice = 1.25

// load returns the scenario's row of the table of loads, and an error if keys were read more often than they may be.
func (b *bed) load(s scenario) ([]string, error) {
	var took, atBlock []float64
	for i := range b.history.Answers {
		if a := &b.history.Answers[i]; a.OK() {
			took = append(took, figures.Milliseconds(a.Took))
			if a.Sent.Sub(b.chain.CommittedAt(a.Tip)) < atBlockWindow {
				atBlock = append(atBlock, took[len(took)-1])
			}
		}
	}
	counts, all, most := map[devnet.ReadCount]int64{}, int64(0), int64(0)
	for _, n := range b.nodes {
		for _, a := range n.Stats().ReadCounts {
			if slices.Contains(b.keys, a.URI) {
				pair := devnet.ReadCount{URI: a.URI, Height: a.Height}
				counts[pair] += a.Count
				all, most = all+a.Count, max(most, counts[pair])
			}
		}
	}
	reads := float64(all) / float64(max(1, len(counts)))
	var err error
	if s.setup.once && reads > someTwice {
		err = fmt.Errorf("%s: %.2f node requests per key and block, want at most %v", s.name, reads, someTwice)
	}
	return figures.Row(s.name, len(took), figures.Median(took), figures.Quantile(took, 0.99), figures.Quantile(atBlock, 0.99), reads, most), err
}

// causeRandom causes faults at random for the campaign's length. The pauses may be too short for a recovery. Afterwards
// nothing may be lost.
func (c *campaign) causeRandom(ctx context.Context, b *bed) {
	random := rand.New(rand.NewPCG(c.seed, 1))
	running, stop := context.WithTimeout(ctx, c.length)
	defer stop()
	for running.Err() == nil {
		b.noteHeld(ctx)
		b.cause(running, c.randomFault(random))
		rig.Pause(running, time.Second+time.Duration(random.IntN(5000))*time.Millisecond)
	}
	b.settle(ctx)
	b.noteHeld(ctx)
}

// noteHeld prints the resources of the replica that is never killed, which reveal leaks. It collects garbage first.
func (b *bed) noteHeld(ctx context.Context) {
	first := b.replicas[0]
	_, _ = rig.Get(ctx, first.Admin+"/debug/pprof/heap?gc=1")
	if m, err := first.Metrics(ctx); err == nil { // else ctx has ended
		b.note("replica 1 holds %.0f goroutines, %.0f descriptors, %.1f MiB alive, %.1f resident", m["go_goroutines"], m["process_open_fds"],
			m["go_memstats_heap_alloc_bytes"]/(1<<20), m["process_resident_memory_bytes"]/(1<<20))
	}
}
