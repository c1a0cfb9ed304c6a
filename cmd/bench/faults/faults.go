package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// campaign says which faults to cause.
type campaign struct {
	plan
	options rig.Options
	names   []string // of scenarios; none: all
	random  bool
	seed    uint64
}

// Faults causes faults one after another, or at random, and prints for each what
// the clients saw. It is an error when a promise was broken.
//
//	bench faults
//	bench faults lie set-back
//	bench faults -random -seed 7 -for 10m
func Faults(ctx context.Context, args []string) error {
	c := campaign{plan: plan{replicas: 2, blockTime: time.Second, nodeLatency: 20 * time.Millisecond}, options: rig.Options{Report: figures.Report{W: os.Stdout}}}
	fs := flag.NewFlagSet("bench faults", flag.ContinueOnError)
	fs.IntVar(&c.clients, "clients", 60, "clients, each on a connection of its own")
	fs.IntVar(&c.keys, "keys", 12, "distinct requests")
	fs.DurationVar(&c.poll, "poll", 200*time.Millisecond, "pause of a client between two requests")
	fs.BoolVar(&c.random, "random", false, "cause faults at random")
	fs.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "of the random faults")
	fs.DurationVar(&c.length, "for", 10*time.Minute, "length of the random faults")
	fs.StringVar((*string)(&c.options.Dialect), "dialect", string(devnet.Story), "of the nodes: story or cosmos")
	fs.StringVar(&c.options.Bin, "tipcache", "", "run this `binary` in place of one built from the tree")
	fs.Usage = func() { faultsUsage(fs) }
	if err := fs.Parse(args); err != nil {
		return errors.Join(rig.ErrUsage, err)
	}
	c.names = fs.Args()
	part := rig.Part{Name: "faults", Needs: []rig.Tool{rig.RedisTool, rig.RedisCLITool, rig.InitdbTool, rig.PostgresTool}, Run: c.run}
	return runAlone(ctx, c.options, part)
}

func faultsUsage(fs *flag.FlagSet) {
	fmt.Fprint(fs.Output(), "bench faults [flags] [scenario ...]\n\nScenarios, all of them unless named:\n ")
	for _, s := range scenarios() {
		fmt.Fprint(fs.Output(), " ", s.name)
	}
	fmt.Fprint(fs.Output(), "\n\nFlags:\n")
	fs.PrintDefaults()
}

// runAlone runs a part in a rig of its own.
func runAlone(ctx context.Context, o rig.Options, part rig.Part) error {
	if err := rig.Lacking([]rig.Part{part}); err != nil {
		return err
	}
	r, err := rig.New(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Run(ctx, part)
}

func (c *campaign) run(ctx context.Context, r *rig.Rig) error {
	if c.random {
		return c.runRandom(ctx, r)
	}
	chosen, err := chooseScenarios(c.names)
	if err != nil {
		return err
	}
	var rows [][]string
	var broken []error
	for _, s := range chosen {
		fmt.Fprintln(os.Stderr, "faults:", s.name)
		more, err := c.runScenario(ctx, r, s)
		broken = append(broken, err)
		for _, row := range more {
			rows = append(rows, append([]string{s.name}, row...))
		}
		r.Stop()
		if ctx.Err() != nil {
			break
		}
	}
	r.Table(fmt.Sprintf("Faults: %d clients, %d replicas, %d keys, blocks of %v", c.clients, c.replicas, c.keys, c.blockTime),
		append([]string{"scenario"}, verdictHead...), rows)
	return errors.Join(broken...)
}

func chooseScenarios(names []string) ([]scenario, error) {
	all := scenarios()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []scenario
	for _, n := range names {
		i := slices.IndexFunc(all, func(s scenario) bool { return s.name == n })
		if i < 0 {
			return nil, fmt.Errorf("%w: there is no scenario %q; see faults -h", rig.ErrUsage, n)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// warmUp is before the first fault: all keys are cached by then.
const warmUp = 6 * time.Second

// runScenario returns a row for each fault.
func (c *campaign) runScenario(ctx context.Context, r *rig.Rig, s scenario) ([][]string, error) {
	b, err := newBed(ctx, r, c.plan, s.setup)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	err = b.during(ctx, func(ctx context.Context) error {
		for _, f := range s.faults {
			if err := b.try(ctx, f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	for _, n := range b.notes {
		fmt.Fprintln(os.Stderr, "  ", n)
	}
	m, err := b.model(ctx)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	var broken []error
	for _, t := range b.trials {
		row, err := b.row(m, t)
		rows, broken = append(rows, row), append(broken, err)
	}
	if err := errors.Join(broken...); err != nil {
		return rows, fmt.Errorf("%s: %w", s.name, err)
	}
	return rows, nil
}

// during does something while the clients ask, once all keys are cached.
func (b *bed) during(ctx context.Context, do func(context.Context) error) error {
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { b.drive(asking) })
	var err error
	if rig.Pause(ctx, warmUp) {
		err = do(ctx)
	}
	end()
	all.Wait()
	return errors.Join(err, ctx.Err())
}
