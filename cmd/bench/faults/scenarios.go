package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A scenario is a bed and what goes wrong in it.
type scenario struct {
	name   string
	setup  setup
	random bool // its faults are among those that are caused at random
	faults []fault
}

// scenarios are all there are. Their faults last as long as hold makes of the time that they
// usually do.
func scenarios(hold func(usual time.Duration) time.Duration) []scenario {
	one, two := setup{redis: oneRedis}, setup{redis: oneRedis, nodes: 2}
	second := func(n int) time.Duration { return hold(time.Duration(n) * time.Second) }
	sealed := setup{redis: oneRedis, env: []string{"TIPCACHE_REDIS_SEAL_KEY=known to the replicas alone"}}
	lie, refuse := devnet.Fault{Ahead: farAhead}, devnet.Fault{Outage: devnet.Refuse}
	oldHeaders := func(blocks int64) fault {
		return nodesFail(fmt.Sprintf("the socket is %d blocks behind", blocks), second(20), well, devnet.Fault{EventsBehind: blocks}, 0).isWithstood()
	}
	return append([]scenario{
		{"lie", one, true, []fault{nodesFail("a lie of +10^6", second(3), well, lie, 0)}},
		{"two-nodes", two, true, []fault{nodesFail("a lie of +10^6", second(20), well, lie, 1)}},
		{"old-headers", one, true, []fault{oldHeaders(farAhead), oldHeaders(lagBy)}},
		{"silent-comet", one, true, []fault{nodesFail("CometBFT hangs", second(20), well, devnet.Fault{Stall: true}, 0).isWithstood()}},
		{"lagging", two, true, []fault{lagging(1, second(10))}},
		{"set-back", setup{}, true, []fault{backBy(setBack)}},
		{"set-back-redis", one, false, []fault{backBy(setBack)}},
		{"set-backs", two, true, []fault{backBy(1), backBy(4), backBy(9), backBy(20)}},
		{"leftovers", one, false, []fault{leftovers}},
		{"halt", one, true, []fault{halt(second(20))}},
		{"hang", one, false, []fault{hang(second(30))}},
		{"outage", one, true, []fault{nodeFault("refused", refuse, second(10))}},
		{"stalled", one, true, []fault{nodeFault("stalled", devnet.Fault{Stall: true}, second(10))}},
		{"answers", one, true, []fault{
			nodeFault("reset", devnet.Fault{Outage: devnet.Reset}, second(7)), nodeFault("nonsense", devnet.Fault{Nonsense: true}, second(7)),
			nodeFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, second(7)),
		}},
		{"restart", one, false, []fault{lateBlock(refuse, second(3), second(8))}},
		{"redis", one, true, []fault{redisOutage(second(8))}},
		{"replica", one, true, []fault{replicaKilled(second(8))}},
		{"sentinel", setup{redis: sentinels}, false, []fault{failover}},
		{"cluster", setup{redis: cluster}, false, []fault{failover}},
		{"stops", setup{redis: oneRedis, stops: true}, true, slices.Concat(stops(second(1)), stops(second(20)))},
		{"clock", setup{redis: oneRedis, clock: true}, false, clockJumps(5*time.Minute, second(10))},
		{"neighbour", one, true, []fault{leasesHeld(second(40))}},
		{"neighbour-seal", sealed, false, []fault{leasesHeld(second(40))}},
		{"net", setup{redis: oneRedis, links: true}, true, networkFaults(second(6))},
	}, memoryScenarios(second(20))...)
}

// usual lets faults last as long as they usually do.
func usual(hold time.Duration) time.Duration { return hold }

// randomFault draws a scenario, and one of its faults, for a second and a part of its time.
func randomFault(random *rand.Rand, clocks bool) fault {
	all := slices.DeleteFunc(scenarios(func(usual time.Duration) time.Duration {
		return time.Second + time.Duration(random.Int64N(int64(min(usual, 19*time.Second))))
	}), func(s scenario) bool { return !s.random && !(clocks && s.setup.clock) })
	faults := all[random.IntN(len(all))].faults
	return faults[random.IntN(len(faults))]
}

// runRandom causes faults at random for the campaign's length, with pauses that may
// be too short for all to be well. Afterwards nothing may be lost, and the replica
// that none kills, the first, holds what it held before.
func (c *campaign) runRandom(ctx context.Context, r *rig.Rig) {
	r.Note("Random faults for %v, seed %d.", c.length, c.seed)
	b := newBed(ctx, r, c.plan, setup{redis: oneRedis, nodes: 2, links: true, stops: true, clock: c.clocks, smallMemory: true})
	random := rand.New(rand.NewPCG(c.seed, 1))
	var all []held
	err := rig.Try(func() {
		b.drive(ctx, warmUp, func(ctx context.Context) {
			running, stop := context.WithTimeout(ctx, c.length)
			var watching sync.WaitGroup
			defer watching.Wait()
			defer stop()
			watching.Go(func() { all = watchHeld(running, b.replicas[0].Replica, c.length) })
			for running.Err() == nil {
				b.cause(running, randomFault(random, c.clocks))
				rig.Pause(running, time.Second+time.Duration(random.IntN(5000))*time.Millisecond)
			}
			b.settle(ctx)
		})
	})
	b.printNotes(r.W)
	if len(b.trials) > 0 { // where a fault could not be caused, what came before it is judged
		err = errors.Join(err, b.reportRandom(ctx, c, all))
	}
	rig.Check(errors.Join(err, ctx.Err()))
}

// reportRandom prints the verdict of the whole run and those of faults at which a
// promise was broken, and what the first replica held.
func (b *bed) reportRandom(ctx context.Context, c *campaign, all []held) error {
	m := b.model(ctx)
	row, err := b.row(m, trial{name: "all of them", began: b.trials[0].began, mended: b.trials[len(b.trials)-1].mended})
	rows, broken := [][]string{row}, []error{err}
	for _, t := range b.trials {
		t.name = fmt.Sprintf("%s at %.1fs", t.name, t.began.Sub(b.began).Seconds())
		if row, err := b.row(m, t); err != nil {
			rows, broken = append(rows, row), append(broken, err)
		}
	}
	b.Table(fmt.Sprintf("%d random faults within %v, seed %d", len(b.trials), c.length, c.seed), verdictHead, rows)
	err = reportGrowth(b.Rig, "Held by replica 1", all, c.length)
	if c.length >= 8*time.Minute { // else nothing has settled
		broken = append(broken, err)
	}
	return errors.Join(broken...)
}
