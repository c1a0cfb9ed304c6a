package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// driven is a plan with what is to fail in the middle.
type driven struct {
	plan
	stopNode, stopRedis  time.Duration // outages; 0 none
	killReplica, rolling bool
	check                bool // fail when a promise was broken
}

// Drive measures what replicas promise: what the node is asked, how old the
// answers are and how long they take, also while something fails.
//
//	bench drive
//	bench drive -for 2m -stop-node 30s
//	bench drive -for 1m -rolling
func Drive(ctx context.Context, args []string) error {
	d := driven{plan: plan{replicas: 3, clients: 300, keys: 20, length: 2 * time.Minute}}
	fs := d.flags("drive")
	fs.IntVar(&d.replicas, "replicas", d.replicas, "tipcache processes behind one Redis")
	fs.IntVar(&d.lone, "lone", 0, "more clients, each alone with a request of its own, which it repeats every 2.5 blocks")
	fs.DurationVar(&d.nodeLatency, "node-latency", d.nodeLatency, "added to every answer of the node")
	fs.DurationVar(&d.stopNode, "stop-node", 0, "refuse connections to the node for so long in the middle")
	fs.DurationVar(&d.stopRedis, "stop-redis", 0, "kill Redis for so long in the middle")
	fs.BoolVar(&d.killReplica, "kill-replica", false, "kill -9 one replica in the middle")
	fs.BoolVar(&d.rolling, "rolling", false, "restart the replicas one after another")
	fs.BoolVar(&d.check, "check", false, "exit with an error when a promise was broken")
	if err := rig.Parse(fs, "bench drive [flags]", args); err != nil {
		return err
	}
	return rig.Measure(ctx, d.options, rig.Part{Name: "drive", Needs: []string{"redis-server"}, Run: d.run})
}

func (d *driven) run(ctx context.Context, r *rig.Rig) {
	s := setup{redis: oneRedis}
	if d.check { // a busy machine is not to be taken for a Redis that is lost
		s.env = []string{"TIPCACHE_REDIS_TIMEOUT=2s"}
	}
	b := newBed(ctx, r, d.plan, s)
	before := b.redis.Info(ctx)
	running, cancel := context.WithTimeout(ctx, d.length)
	defer cancel()
	b.drive(running, d.length/3, func(running context.Context) {
		d.disturb(running, b)
		<-running.Done()
	})
	time.Sleep(time.Second) // let the last flights end
	verdict := b.model(ctx).Check(b.history.Answers, b.began, time.Now())
	b.report(ctx, verdict, before)
	if d.check {
		rig.Check(d.broken(b, verdict))
	}
}

// disturb fails what is to fail, and mends it.
func (d *driven) disturb(ctx context.Context, b *bed) {
	for _, f := range []struct {
		fault
		chosen bool
	}{
		{fault{name: "a rolling restart", begin: func(_ context.Context, b *bed) { b.rollingRestart(ctx) }}, d.rolling},
		{nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, d.stopNode), d.stopNode > 0},
		{redisOutage(d.stopRedis), d.stopRedis > 0},
		{replicaKilled(0), d.killReplica},
	} {
		if f.chosen {
			b.cause(ctx, f.fault)
			rig.Pause(ctx, 2*time.Second)
		}
	}
}

// someTwice is how many reads of the node there may be for a pair of key and
// block: where a busy machine keeps a replica from renewing its lease in time,
// another goes on. Without leases there would be one for each replica.
const someTwice = 1.25

// broken is an error that names every promise the run has broken. Where the
// node, Redis or a replica fails in the middle a block may be read again.
func (d *driven) broken(b *bed, v *clients.Verdict) error {
	load := b.nodeLoad()
	var errs []error
	if disturbed := d.stopNode > 0 || d.stopRedis > 0 || d.killReplica; float64(load.reads) > someTwice*float64(load.pairs) && !disturbed {
		errs = append(errs, fmt.Errorf("node requests: %v", load))
	}
	return errors.Join(append(errs, v.Broken())...)
}
