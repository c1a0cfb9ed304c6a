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
	faults []fault
}

func scenarios() []scenario {
	return append([]scenario{
		{"lie", setup{redis: oneRedis}, []fault{lie(0, 3*time.Second)}},
		{"two-nodes", setup{redis: oneRedis, nodes: 2}, []fault{lie(1, 20*time.Second)}},
		{"old-headers", setup{redis: oneRedis}, []fault{oldHeaders(0, farAhead, 20*time.Second), oldHeaders(0, lagBy, 20*time.Second)}},
		{"silent-comet", setup{redis: oneRedis}, []fault{silentComet(0, 20*time.Second)}},
		{"lagging", setup{redis: oneRedis, nodes: 2}, []fault{lagging(1, 10*time.Second)}},
		{"set-back", setup{}, []fault{backBy(setBack)}},
		{"set-back-redis", setup{redis: oneRedis}, []fault{backBy(setBack)}},
		{"set-backs", setup{redis: oneRedis, nodes: 2}, []fault{backBy(1), backBy(4), backBy(9), backBy(20)}},
		{"leftovers", setup{redis: oneRedis}, []fault{leftovers}},
		{"halt", setup{redis: oneRedis}, []fault{halt(20 * time.Second)}},
		{"hang", setup{redis: oneRedis}, []fault{hang(30 * time.Second)}},
		{"outage", setup{redis: oneRedis}, []fault{nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, 10*time.Second)}},
		{"stalled", setup{redis: oneRedis}, []fault{nodeFault("stalled", devnet.Fault{Stall: true}, 10*time.Second)}},
		{"restart", setup{redis: oneRedis}, []fault{lateBlock(3*time.Second, 8*time.Second)}},
		{"redis", setup{redis: oneRedis}, []fault{redisOutage(8 * time.Second)}},
		{"replica", setup{redis: oneRedis}, []fault{replicaKilled(8 * time.Second)}},
		{"sentinel", setup{redis: sentinels}, []fault{failover}},
		{"cluster", setup{redis: cluster}, []fault{failover}},
		{"stops", setup{redis: oneRedis, stops: true}, slices.Concat(stops(time.Second), stops(20*time.Second))},
		{"clock", setup{redis: oneRedis, clock: true}, clockJumps(5*time.Minute, 10*time.Second)},
		{"neighbour", setup{redis: oneRedis}, []fault{leasesHeld(40 * time.Second)}},
		{"neighbour-seal", setup{redis: oneRedis, env: []string{"TIPCACHE_REDIS_SEAL_KEY=known to the replicas alone"}}, []fault{leasesHeld(40 * time.Second)}},
		{"execution", setup{index: true}, executionFaults(10 * time.Second)},
		{"audit", setup{redis: oneRedis, nodes: 2, env: []string{auditAll}}, []fault{nodesHonest, nodeForges(1, 10*time.Second)}},
		{"net", setup{redis: oneRedis, links: true}, networkFaults(6 * time.Second)},
	}, memoryScenarios()...)
}

// networkFaults fail each link in each way.
func networkFaults(hold time.Duration) (all []fault) {
	for _, name := range linkNames {
		for _, weather := range weatherNames {
			all = append(all, networkFault(name, weather, hold))
		}
	}
	return all
}

// randomFault draws one of all kinds. A fault of the network is twice as likely as any other.
func randomFault(random *rand.Rand, clocks bool) fault {
	hold := time.Second + time.Duration(random.IntN(7000))*time.Millisecond
	long := time.Second + time.Duration(random.IntN(19000))*time.Millisecond
	offset := time.Duration(random.IntN(1200)-600) * time.Second
	all := []fault{
		lie(random.IntN(2), hold),
		lagging(random.IntN(2), hold),
		oldHeaders(random.IntN(2), lagBy, hold),
		silentComet(random.IntN(2), hold),
		halt(hold),
		nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, hold),
		nodeFault("reset", devnet.Fault{Outage: devnet.Reset}, hold),
		nodeFault("stalled", devnet.Fault{Stall: true}, hold),
		nodeFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, hold),
		nodeFault("nonsense", devnet.Fault{Nonsense: true}, hold),
		nodeStopped(random.IntN(2), long),
		cometStopped(random.IntN(2), long),
		redisStopped(long),
		replicaStopped(long),
		leasesHeld(long),
		redisOutage(hold),
		replicaKilled(hold),
		backBy(1 + random.Int64N(setBack)),
		listsStreamed(long),
		executionFaults(hold)[random.IntN(4)],
		networkFault(linkNames[random.IntN(len(linkNames))], weatherNames[random.IntN(len(weatherNames))], hold),
		networkFault(linkNames[random.IntN(len(linkNames))], weatherNames[random.IntN(len(weatherNames))], hold),
	}
	if clocks {
		all = append(all, clockAt(offset, hold, random.IntN(2)))
	}
	return all[random.IntN(len(all))]
}

// runRandom causes faults at random for the campaign's length, with pauses that may
// be too short for all to be well. Afterwards nothing may be lost, and the replica
// that none kills, the first, holds what it held before.
func (c *campaign) runRandom(ctx context.Context, r *rig.Rig) error {
	r.Note("Random faults for %v, seed %d.", c.length, c.seed)
	b, err := newBed(ctx, r, c.plan, setup{redis: oneRedis, nodes: 2, links: true, index: true, stops: true, clock: c.clocks, smallMemory: true})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(c.seed, 1))
	var all []held
	err = b.drive(ctx, warmUp, func(ctx context.Context) (err error) {
		running, stop := context.WithTimeout(ctx, c.length)
		defer stop()
		var watching sync.WaitGroup
		watching.Go(func() { all = watchHeld(running, b.replicas[0].Replica, c.length) })
		for running.Err() == nil && err == nil {
			err = b.cause(running, randomFault(random, c.clocks))
			rig.Pause(running, time.Second+time.Duration(random.IntN(5000))*time.Millisecond)
		}
		stop()
		watching.Wait()
		b.settle(ctx)
		return errors.Join(err, ctx.Err())
	})
	b.printNotes(r.W)
	if len(b.trials) == 0 {
		return err
	}
	return errors.Join(err, b.reportRandom(ctx, c, all)) // where a fault could not be caused, what came before it is judged
}

// reportRandom prints the verdict of the whole run and those of faults at which a
// promise was broken, and what the first replica held.
func (b *bed) reportRandom(ctx context.Context, c *campaign, all []held) error {
	m, err := b.model(ctx)
	if err != nil {
		return err
	}
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
