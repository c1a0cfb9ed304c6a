package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
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
	return rig.Measure(ctx, d.options, rig.Part{Name: "drive", Run: d.run})
}

func (d *driven) run(ctx context.Context, r *rig.Rig) {
	s := setup{redis: oneRedis}
	if d.check { // a busy machine is not to be taken for a Redis that is lost
		s.env = []string{"TIPCACHE_REDIS_TIMEOUT=2s"}
	}
	b := newBed(ctx, r, d.plan, s)
	before, first := b.redis.Info(ctx), b.chain.Height()
	running, cancel := context.WithTimeout(ctx, d.length)
	defer cancel()
	b.drive(running, d.length/3, func(running context.Context) {
		d.disturb(running, b)
		<-running.Done()
	})
	time.Sleep(time.Second) // let the last flights end
	load := b.nodeLoad()
	row, err := b.row(b.model(ctx), trial{name: "the whole run", began: b.began, mended: time.Now()})
	r.Table(fmt.Sprintf("drive: %d replicas, blocks of %v, node latency %v", d.replicas, blockTime, d.nodeLatency), verdictHead(), [][]string{row})
	r.Table("answers", []string{"of", "answers", "blocks behind", "p50 ms", "p99 ms", "max ms"}, b.answers())
	r.Note("node requests: %v", load)
	after, blocks := b.redis.Info(ctx), float64(max(1, b.chain.Height()-first))
	r.Note("Redis has %.0f keys, and %.0f commands a block.", after["db0"], (after["total_commands_processed"]-before["total_commands_processed"])/blocks)
	if disturbed := d.stopNode > 0 || d.stopRedis > 0 || d.killReplica; float64(load.reads) > someTwice*float64(load.pairs) && !disturbed {
		err = errors.Join(err, fmt.Errorf("node requests: %v", load))
	}
	if d.check {
		rig.Check(err)
	}
}

// someTwice is how many reads of the node there may be for a pair of key and
// block: where a busy machine keeps a replica from renewing its lease in time,
// another goes on. Without leases there would be one for each replica. Where the
// node, Redis or a replica fails in the middle a block may be read again.
const someTwice = 1.25

// disturb fails what is to fail, and mends it.
func (d *driven) disturb(ctx context.Context, b *bed) {
	for _, f := range []struct {
		fault
		chosen bool
	}{
		{rolling, d.rolling},
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

// atBlockWindow is how long after a new block a request counts as sent at the
// block's change.
const atBlockWindow = 250 * time.Millisecond

// answers has a row for each kind of answers: how old they were and how long they took.
func (b *bed) answers() (rows [][]string) {
	lone := func(a *clients.Answer) bool { return slices.Contains(b.keys[b.plan.keys:], a.Key) }
	for _, of := range []struct {
		name string
		is   func(*clients.Answer) bool
	}{
		{"all", func(*clients.Answer) bool { return true }},
		{fmt.Sprintf("within %v after a block", atBlockWindow), func(a *clients.Answer) bool { return a.Sent.Sub(b.chain.CommittedAt(a.Tip)) < atBlockWindow }},
		{"keys of many clients", func(a *clients.Answer) bool { return !lone(a) }},
		{"keys of one client", lone},
	} {
		var took []float64
		behind := map[int64]int{}
		for i := range b.history.Answers {
			if a := &b.history.Answers[i]; a.OK() && of.is(a) {
				took = append(took, figures.Milliseconds(a.Took))
				if a.Height > 0 && !slices.Contains(b.unpinned, a.Key) { // what is fixed is of any block
					behind[max(0, a.Tip-a.Height)]++
				}
			}
		}
		rows = append(rows, figures.Row(of.name, len(took), shares(behind), figures.Median(took), figures.Quantile(took, 0.99), figures.Quantile(took, 1)))
	}
	return rows
}

func shares(m map[int64]int) string {
	all := 0
	for _, n := range m {
		all += n
	}
	var each []string
	for _, n := range slices.Sorted(maps.Keys(m)) {
		each = append(each, fmt.Sprintf("%d: %.2f %%", n, 100*float64(m[n])/float64(all)))
	}
	return strings.Join(each, ", ")
}

// nodeLoad is what the node was asked, beside the replicas' own probes.
type nodeLoad struct {
	pairs, reads int64 // pairs of a key and a block
	unused       int64 // pairs of which no client got the answer
	worst        devnet.Asked
}

func (b *bed) nodeLoad() nodeLoad {
	l := nodeLoad{worst: devnet.Asked{URI: "none"}}
	type pair struct {
		key    string
		height int64
	}
	used, last := map[pair]bool{}, int64(0)
	for _, a := range b.history.Answers {
		used[pair{a.Key, a.Height}], last = true, max(last, a.Tip)
	}
	for _, a := range b.chain.Node().Stats().Asked {
		if !slices.Contains(b.keys, a.URI) {
			continue
		}
		l.pairs, l.reads = l.pairs+1, l.reads+a.Count
		if a.Height < last && !used[pair{a.URI, a.Height}] { // later there are no clients
			l.unused++
		}
		if a.Count > l.worst.Count {
			l.worst = a
		}
	}
	return l
}

func (l nodeLoad) String() string {
	return fmt.Sprintf("%d for %d pairs of key and block: %.2f a pair, most %d (%s at %d); %d pairs for nobody",
		l.reads, l.pairs, float64(l.reads)/float64(max(1, l.pairs)), l.worst.Count, l.worst.URI, l.worst.Height, l.unused)
}
