package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// runRandom causes faults at random for the campaign's length. Afterwards nothing
// may be lost, and each replica holds what it held before.
func (c *campaign) runRandom(ctx context.Context, r *rig.Rig) error {
	r.Note("Random faults for %v, seed %d.", c.length, c.seed)
	b, err := newBed(ctx, r, c.plan, setup{redis: oneRedis, nodes: 2, links: true, postgres: true})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(c.seed, 1))
	began := time.Now()
	var held [][]rig.Held
	err = b.during(ctx, func(ctx context.Context) error {
		watching, stop := context.WithTimeout(ctx, c.length)
		defer stop()
		look := b.watch(watching, c.length)
		for watching.Err() == nil {
			if err := b.tryRandom(watching, random); err != nil {
				return err
			}
		}
		held = look()
		b.settle(ctx)
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range b.notes {
		fmt.Fprintln(r.W, "  ", n)
	}
	return b.reportRandom(ctx, c, trial{name: "all of them", began: began, mended: b.trials[len(b.trials)-1].mended, end: time.Now()}, held)
}

// reportRandom prints the verdict and what the replicas hold.
func (b *bed) reportRandom(ctx context.Context, c *campaign, whole trial, held [][]rig.Held) error {
	m, err := b.model(ctx)
	if err != nil {
		return err
	}
	row, err := b.row(m, whole)
	rows, broken := [][]string{row}, []error{err}
	for i, t := range b.trials {
		if t.end = whole.end; i+1 < len(b.trials) {
			t.end = b.trials[i+1].began
		}
		if v := m.Check(b.history.Answers, t.began, t.end); v.Broken() != nil {
			t.name = fmt.Sprintf("%s at %.1fs", t.name, t.began.Sub(b.began).Seconds())
			row, err := b.row(m, t)
			rows, broken = append(rows, row), append(broken, err)
		}
	}
	b.Table(fmt.Sprintf("%d random faults within %v, seed %d", len(b.trials), c.length, c.seed), verdictHead, rows)
	for i, looks := range held {
		grown := rig.Growths(looks, c.length)
		b.Table(fmt.Sprintf("Held by replica %d", i+1), rig.GrowthHead, rig.GrowthRows(grown))
		if c.length >= 8*time.Minute { // else nothing has settled
			broken = append(broken, rig.Grew(grown))
		}
	}
	return errors.Join(broken...)
}

// tryRandom has one fault, and a pause that may be too short for all to be well.
func (b *bed) tryRandom(ctx context.Context, random *rand.Rand) error {
	faults := randomFaults(random, time.Second+time.Duration(random.IntN(7000))*time.Millisecond)
	f := faults[random.IntN(len(faults))]
	t := trial{name: f.name, began: time.Now()}
	b.note("%s, %v", f.name, f.hold)
	lasting := context.WithoutCancel(ctx)
	if err := f.begin(lasting, b); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	rig.Pause(ctx, f.hold)
	if f.end != nil {
		if err := f.end(lasting, b); err != nil {
			return fmt.Errorf("end of %s: %w", f.name, err)
		}
	}
	t.mended = time.Now()
	rig.Pause(ctx, time.Second+time.Duration(random.IntN(5000))*time.Millisecond)
	b.trials = append(b.trials, t)
	return nil
}

func randomFaults(random *rand.Rand, hold time.Duration) []fault {
	return []fault{
		lie(random.IntN(2), hold),
		lagging(random.IntN(2), hold),
		halt(hold),
		nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, hold),
		nodeFault("reset", devnet.Fault{Outage: devnet.Reset}, hold),
		nodeFault("stalled", devnet.Fault{Stall: true}, hold),
		nodeFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, hold),
		nodeFault("nonsense", devnet.Fault{Nonsense: true}, hold),
		redisOutage(hold),
		replicaKilled(hold),
		backBy(1 + random.Int64N(setBack)),
		networkFault(linkNames[random.IntN(len(linkNames))], weatherNames[random.IntN(len(weatherNames))], hold),
		networkFault(linkNames[random.IntN(len(linkNames))], weatherNames[random.IntN(len(weatherNames))], hold),
	}
}

// redisOutage kills Redis, which comes back empty.
func redisOutage(hold time.Duration) fault {
	return fault{
		name: "Redis killed", begin: func(_ context.Context, b *bed) error { b.redis.Kill(); return nil }, hold: hold,
		end: func(ctx context.Context, b *bed) error {
			if err := b.redis.Restart(ctx); err != nil {
				return err
			}
			return b.redis.Ready(ctx)
		},
	}
}

// replicaKilled kills the last replica, which starts again. What the others hold
// tells of leaks.
func replicaKilled(hold time.Duration) fault {
	return fault{
		name: "a replica killed", begin: func(_ context.Context, b *bed) error { b.kill(len(b.replicas) - 1); return nil }, hold: hold,
		end: func(ctx context.Context, b *bed) error {
			r := b.replicas[len(b.replicas)-1]
			return r.revive(ctx, func(ctx context.Context) error { return r.Process.Ready(ctx, rig.Answers(r.Admin+"/healthz")) })
		},
	}
}

// watch looks what each replica holds that is not killed, until the function that it returns is
// called.
func (b *bed) watch(ctx context.Context, length time.Duration) func() [][]rig.Held {
	ctx, stop := context.WithCancel(ctx)
	lasting := b.replicas[:len(b.replicas)-1]
	held := make([][]rig.Held, len(lasting))
	var all sync.WaitGroup
	for i, r := range lasting {
		w := rig.Watch{Replica: r.Replica, Began: time.Now(), Requests: func() int { return 0 }}
		all.Go(func() { held[i], _ = w.Run(ctx, length) }) // it ends with ctx, as it should
	}
	return func() [][]rig.Held { stop(); all.Wait(); return held }
}
