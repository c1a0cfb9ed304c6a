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
	began, mended time.Time // responses have to become fresh after mended
	end           time.Time // zero for the end of the run
	unnoticed     bool      // as in fault
}

const (
	freshWithin = 15 * time.Second // responses must be fresh this long after a fault, and none may be from a chain that ended earlier
	freshBlocks = 2                // a response is fresh if it was the node's at most this many blocks ago
)

// cause begins a fault, waits, and ends it, at the latest when ctx ends.
func (b *bed) cause(ctx context.Context, f fault) {
	t := trial{name: f.name, began: time.Now(), unnoticed: f.unnoticed}
	if f.hold > 0 {
		t.name += fmt.Sprint(" for ", f.hold.Round(time.Second))
	}
	if n := len(b.trials); n > 0 {
		b.trials[n-1].end = t.began
	}
	b.note("%s begins", t.name)
	holding, over := context.WithoutCancel(ctx), context.CancelFunc(func() {})
	if f.hold > 0 {
		holding, over = context.WithTimeout(ctx, f.hold)
	}
	defer over()
	if err := rig.Try(func() { f.cause(holding, b) }); err != nil {
		rig.Check(fmt.Errorf("%s: %w", t.name, err))
	}
	if f.hold > 0 {
		b.note("%s ends", t.name)
	}
	t.mended = time.Now()
	if f.withstood {
		t.mended = t.began
	}
	b.trials = append(b.trials, t)
}

// settle waits until all responses of two seconds are at the tip, for at most 20 s.
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

// controlled returns an error if clients without a session see no response of an earlier block. Sessions would prove
// nothing then.
func (b *bed) controlled(m *clients.Model) error {
	if b.ingress == "" {
		return nil
	}
	for i := range b.control.Answers {
		b.control.Answers[i].Opened = 0
	}
	v := m.Check(b.control.Answers, b.began, b.forks[len(b.forks)-1].Began.Add(-time.Second))
	b.note("without a session %d of %d responses go back", v.Found[clients.Crossed], v.Answers)
	if v.Found[clients.Crossed] == 0 {
		return fmt.Errorf("without a session none of %d responses goes back, so the scenario proves nothing", v.Answers)
	}
	return nil
}

// currentEnough returns an error if more than 1 % of the responses of a trial are more than freshBlocks old. On a busy
// machine a replica may not run for seconds.
func (b *bed) currentEnough(m *clients.Model, t trial) error {
	old, all, last := 0, 0, (*clients.Answer)(nil)
	for i := range b.history.Answers {
		if a := &b.history.Answers[i]; a.Sent.After(t.began) && a.Sent.Before(t.end) {
			if all++; !m.Fresh(a, freshBlocks) {
				old, last = old+1, a
			}
		}
	}
	if 100*old > all {
		return fmt.Errorf("%d of %d answers are more than %d blocks old: %v", old, all, freshBlocks, last)
	}
	return nil
}

// row returns a trial's line of the table, and an error if a promise was broken.
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
