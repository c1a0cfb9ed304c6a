package faults

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// A trial is a fault of a run and the time until the next one begins.
type trial struct {
	name          string
	began, mended time.Time // mended: from when on answers have to become fresh
	end           time.Time // zero: with the run
}

const (
	freshWithin = 15 * time.Second // answers are fresh again so long after a fault, and those of a chain that is gone are over
	freshBlocks = 2                // an answer is fresh that was the node's own so many blocks ago
)

// cause begins a fault, waits, and ends it, which it does also where ctx ends before.
func (b *bed) cause(ctx context.Context, f fault) {
	t := trial{name: f.name, began: time.Now()}
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

// live goes through a fault from its begin to its end.
func (f fault) live(ctx context.Context, b *bed) {
	uncut := context.WithoutCancel(ctx)
	if f.begin != nil {
		f.begin(uncut, b)
	}
	holding, over := context.WithTimeout(ctx, f.hold)
	defer over()
	if f.during != nil {
		f.during(holding, b)
	}
	<-holding.Done()
	if f.end != nil {
		f.end(uncut, b)
	}
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

// verdictHead is the head of the table of verdicts.
var verdictHead = []string{"fault", "answers", "failed, were cached", "failed, cold", "wrong content", "before its block", "height fell", "without height", "fresh again after s"}

// row is a trial's line of the table, and an error where a promise was broken.
func (b *bed) row(m *clients.Model, t trial) ([]string, error) {
	if t.end.IsZero() {
		t.end = time.Now()
	}
	v := m.Check(b.history.Answers, t.began, t.end)
	late, last := m.FreshAgain(b.history.Answers, t.mended, t.end, freshBlocks)
	err := v.Broken()
	if late > freshWithin && err == nil {
		err = fmt.Errorf("answers are fresh again after %v: %v", late, last)
	} else if late > time.Second {
		fmt.Fprintf(os.Stderr, "   %s: not fresh after %v: %v\n", t.name, late, last)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", t.name, err)
	}
	return figures.Row(t.name, v.Answers, v.Failures(), v.Cold, v.Wrong, v.Early, v.Fell, v.Heightless, late.Seconds()), err
}
