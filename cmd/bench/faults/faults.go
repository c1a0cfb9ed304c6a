// Package faults runs several replicas of tipcache before a simulated chain and a
// real Redis, lets many clients poll a few keys, fails things meanwhile, and holds
// what the clients were answered against what tipcache promises.
package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
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
	requests                int // of the hostile client
	seed                    uint64
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
	fs.IntVar(&c.requests, "requests", 100_000, "requests of the hostile client")
	fs.BoolVar(&c.random, "random", false, "cause faults at random")
	fs.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "of the random faults and of the hostile client")
	introduction := "bench faults [flags] [scenario ...]\n\nScenarios, all of them unless named:\n "
	for _, s := range scenarios(c.plan, usual) {
		introduction += " " + s.name
	}
	if err := rig.Parse(fs, introduction, args); err != nil {
		return err
	}
	c.names = fs.Args()
	return rig.Measure(ctx, c.options, rig.Part{Name: "faults", Run: c.run})
}

func (c *campaign) run(ctx context.Context, r *rig.Rig) {
	chosen := rig.Must(rig.Choose("scenario", scenarios(c.plan, usual), c.names, func(s scenario) string { return s.name }))
	if c.random {
		chosen = []scenario{{name: fmt.Sprintf("random, seed %d", c.seed), setup: setup{redis: oneRedis, nodes: 2, links: true, stops: true, env: []string{c.memoryEnv()}}}}
	}
	var rows [][]string
	for _, s := range chosen {
		if err := rig.Try(func() { rows = append(rows, c.try(ctx, r, s)...) }); err != nil {
			r.Broken(fmt.Errorf("%s: %w", s.name, err))
		}
		r.Stop()
		if ctx.Err() != nil {
			break
		}
		r.Progress("faults: %s", s.name)
	}
	r.Table(fmt.Sprintf("Faults: %d clients, %d replicas, %d keys, blocks of %v", c.clients, c.replicas, c.keys, blockTime),
		slices.Insert(verdictHead(), 0, "scenario"), rows)
}

// warmUp is before the first fault: all keys are cached by then.
const warmUp = 6 * time.Second

// try returns a row for each fault of a scenario. Where one could not be caused, what came
// before it is judged.
func (c *campaign) try(ctx context.Context, r *rig.Rig, s scenario) (rows [][]string) {
	b := newBed(ctx, r, c.plan, s.setup)
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
	m, trials := b.model(ctx), b.trials
	if n := len(trials); c.random && n > 0 {
		trials = append(trials, trial{name: "all of them", began: trials[0].began, mended: trials[n-1].mended})
	}
	for _, t := range trials {
		row, err := b.row(m, t)
		rows = append(rows, slices.Insert(row, 0, s.name))
		r.Broken(err)
	}
	r.Broken(b.controlled(m))
	return rows
}

// causeRandom causes faults at random for the campaign's length, with pauses that may
// be too short for all to be well. Afterwards nothing may be lost.
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

// noteHeld notes what the replica holds that none kills, which tells of leaks. A heap that
// was collected shows what lives.
func (b *bed) noteHeld(ctx context.Context) {
	first := b.replicas[0]
	_, _ = rig.Get(ctx, first.Admin+"/debug/pprof/heap?gc=1")
	if m, err := first.Metrics(ctx); err == nil { // else ctx has ended
		b.note("replica 1 holds %.0f goroutines, %.0f descriptors, %.1f MiB alive, %.1f resident", m["go_goroutines"], m["process_open_fds"],
			m["go_memstats_heap_alloc_bytes"]/(1<<20), m["process_resident_memory_bytes"]/(1<<20))
	}
}

// A trial is a fault of a run and the time until the next one begins.
type trial struct {
	name          string
	began, mended time.Time // mended: from when on answers have to become fresh
	end           time.Time // zero: with the run
	unnoticed     bool      // as in fault
}

const (
	freshWithin = 15 * time.Second // answers are fresh again so long after a fault, and those of a chain that is gone are over
	freshBlocks = 2                // an answer is fresh that was the node's own so many blocks ago
)

// cause begins a fault, waits, and ends it, which it does also where ctx ends before.
func (b *bed) cause(ctx context.Context, f fault) {
	t := trial{name: f.name, began: time.Now(), unnoticed: f.unnoticed}
	if n := len(b.trials); n > 0 {
		b.trials[n-1].end = t.began
	}
	b.note("%s begins", f.name)
	if err := rig.Try(func() { f.live(ctx, b) }); err != nil {
		rig.Check(fmt.Errorf("%s: %w", f.name, err))
	}
	if f.hold > 0 {
		b.note("%s ends", f.name)
	}
	t.mended = time.Now()
	if f.withstood {
		t.mended = t.began
	}
	b.trials = append(b.trials, t)
}

// live goes through a fault.
func (f fault) live(ctx context.Context, b *bed) {
	holding, over := context.WithoutCancel(ctx), context.CancelFunc(func() {})
	if f.hold > 0 {
		holding, over = context.WithTimeout(ctx, f.hold)
	}
	defer over()
	f.cause(holding, b)
}

// settle waits until all answers of two seconds are at the tip, for 20 s at most.
func (b *bed) settle(ctx context.Context) {
	const quiet = 2 * time.Second
	for end := time.Now().Add(freshWithin + 5*time.Second); time.Now().Before(end); {
		from := time.Now()
		if !rig.Pause(ctx, quiet) || b.history.All(from, b.atTip) {
			return
		}
	}
}

func (b *bed) atTip(a *clients.Answer) bool {
	behind := a.Tip - a.Height
	anyBlock := a.Height == 0 || slices.Contains(b.unpinned, a.Key)
	return b.lost(a) || a.OK() && (anyBlock || -freshBlocks <= behind && behind <= freshBlocks)
}

// controlled is an error where clients without a session, judged as if they had one, see no
// answer go back before the chain does: sessions that hold show nothing then.
func (b *bed) controlled(m *clients.Model) error {
	if b.ingress == "" {
		return nil
	}
	for i := range b.control.Answers {
		b.control.Answers[i].Opened = 0
	}
	v := m.Check(b.control.Answers, b.began, b.forks[len(b.forks)-1].Began.Add(-time.Second))
	b.note("without a session %d of %d answers go back", v.Found[clients.Crossed], v.Answers)
	if v.Found[clients.Crossed] == 0 {
		return fmt.Errorf("without a session no answer of %d goes back, so that the scenario shows nothing", v.Answers)
	}
	return nil
}

// currentEnough returns an error if more than one in a hundred answers of a trial is more than freshBlocks
// old. A few may be: on a busy machine a replica may not run for seconds.
func (b *bed) currentEnough(m *clients.Model, t trial) error {
	old, all, last := 0, 0, (*clients.Answer)(nil)
	for i := range b.history.Answers {
		if a := &b.history.Answers[i]; a.Sent.After(t.began) && a.Sent.Before(t.end) {
			if all++; !m.Fresh(a, freshBlocks) {
				old, last = old+1, a
			}
		}
	}
	b.note("%s %% of the answers are more than %d blocks old", figures.Percent(old, all), freshBlocks)
	if 100*old > all {
		return fmt.Errorf("%d of %d answers are more than %d blocks old: %v", old, all, freshBlocks, last)
	}
	return nil
}

// verdictHead is the head of the table of verdicts.
func verdictHead() []string {
	head := []string{"fault", "answers"}
	for _, f := range clients.Findings {
		head = append(head, string(f))
	}
	return append(head, "fresh again after s")
}

// row is a trial's line of the table, and an error where a promise was broken.
func (b *bed) row(m *clients.Model, t trial) ([]string, error) {
	if t.end.IsZero() {
		t.end = time.Now()
	}
	v := m.Check(b.history.Answers, t.began, t.end)
	late, last := m.FreshAgain(b.history.Answers, t.mended, t.end, freshBlocks)
	err := v.Broken()
	switch {
	case err != nil || !t.unnoticed:
	case v.Found[clients.Cold] > 0:
		err = fmt.Errorf("%d requests of other clients failed", v.Found[clients.Cold])
	default:
		err = b.currentEnough(m, t)
	}
	if late > freshWithin && err == nil {
		err = fmt.Errorf("answers are fresh again after %v: %v", late, last)
	} else if late > time.Second {
		fmt.Fprintf(os.Stderr, "   %s: not fresh after %v: %v\n", t.name, late, last)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", t.name, err)
	}
	row := []any{t.name, v.Answers}
	for _, f := range clients.Findings {
		row = append(row, v.Found[f])
	}
	return figures.Row(append(row, late.Seconds())...), err
}
