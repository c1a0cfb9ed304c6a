package peers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// What clients ask of each replica: so many keys, each twice a block on average.
const (
	renewalsKeys    = 500
	renewalsClients = 64
)

// A renewal is what a pair of a key and a block costs Redis.
type renewal struct {
	cpu                                       float64 // microseconds
	scripts, reads, published, commands, asks float64
	received, sent                            float64 // reads from sockets and writes to them
	failures                                  float64 // operations of the replicas that Redis did not answer, from their start on
}

// A renewalCase is how many replicas share a Redis, and whether bodies change with the block.
type renewalCase struct {
	bodies   string
	still    bool
	replicas int
}

var renewalCases = []renewalCase{
	{"unchanged", true, 1}, {"unchanged", true, 3}, {"unchanged", true, 5},
	{"changed, 1 KB", false, 1}, {"changed, 1 KB", false, 3}, {"changed, 1 KB", false, 5},
}

// Renewals measures what replicas cost the Redis that they share, while each of them is
// asked for all keys at each block.
func Renewals(ctx context.Context, r *rig.Rig) {
	cases := chooseCases(renewalCases, r.Cases, func(c renewalCase) string { return fmt.Sprintf("%s, %d replicas", c.bodies, c.replicas) })
	if r.Short {
		cases = []renewalCase{{"changed, 1 KB", false, 2}}
	}
	var rows [][]string
	cpu := map[renewalCase]float64{}
	for _, c := range cases {
		n := renew(ctx, r, c.replicas, c.still)
		cpu[c] = n.cpu
		further := ""
		if before, ok := cpu[renewalCase{c.bodies, c.still, c.replicas - 2}]; ok {
			further = figures.Decimal((n.cpu - before) / 2)
		}
		rows = append(rows, figures.Row(c.bodies, c.replicas, n.cpu, further, n.received, n.sent, n.commands, n.scripts, n.reads, n.published, n.asks, n.failures))
		r.Progress("renewals: %s, %d replicas", c.bodies, c.replicas)
	}
	r.Table(fmt.Sprintf("renewals: %d keys, each asked for twice in a block of %v at each replica", renewalsKeys, keysBlock),
		[]string{"bodies", "replicas", "Redis's CPU µs per key and block", "of these for each of the last two", "socket reads", "socket writes", "commands", "scripts", "hash reads", "messages", "node requests", "failed operations in all"}, rows)
}

// renew runs so many replicas for some blocks, after some that do not count.
func renew(ctx context.Context, r *rig.Rig, replicas int, still bool) (n renewal) {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: keysBlock})
	node, redis := startBusyNode(r, chain, busyTakes), r.Redis(ctx)
	node.still = still
	defer redis.Stop()
	clock := clients.NewClock(chain.Height)
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	all.Go(func() { clock.Watch(asking) })
	started := make([]*rig.Replica, replicas)
	for i := range started {
		started[i] = r.Replica(ctx, rig.Serving{Node: node.url, Comet: chain.CometURL(), Flags: []string{"--shape", "node", "--redis", redis.URL()}})
		defer started[i].Stop()
		all.Go(func() { wantAll(asking, clock, started[i]) })
	}
	warm, blocks := int64(3), int64(10)
	if r.Short {
		warm, blocks = 1, 1
	}
	first := clock.Wait(ctx, clock.Tip()+warm)
	before := redis.Info(ctx)
	node.counted.Store(first)
	clock.Wait(ctx, first+blocks)
	n = costs(node, before, redis.Info(ctx))
	for _, t := range started {
		n.failures += rig.Must(t.Metrics(ctx)).Sum("tipcache_cache_shared_errors_total")
	}
	return n
}

// wantAll asks a replica for all keys until ctx ends.
func wantAll(ctx context.Context, clock *clients.Clock, of *rig.Replica) {
	keys := keysCase{keys: renewalsKeys, rate: 2 * renewalsKeys * int(time.Second) / int(keysBlock)}
	run := &keysRun{keysCase: keys, clock: clock, addr: rig.Host(of.URL), clients: renewalsClients, failed: map[string]int{}}
	run.ask(ctx)
}

// costs are per pair of a key and a block that the node was asked for meanwhile.
func costs(node *busyNode, before, after rig.Samples) (n renewal) {
	n.asks, _ = node.reads()
	node.mu.Lock()
	defer node.mu.Unlock()
	per := func(fields ...string) (sum float64) {
		for _, field := range fields {
			sum += after[field] - before[field]
		}
		return sum / float64(len(node.asked))
	}
	n.cpu = 1e6 * per("used_cpu_user", "used_cpu_sys")
	n.commands, n.published = per("total_commands_processed"), per("cmdstat_publish", "cmdstat_spublish")
	n.received, n.sent = per("total_reads_processed"), per("total_writes_processed")
	n.scripts, n.reads = per("cmdstat_evalsha", "cmdstat_eval"), per("cmdstat_hget", "cmdstat_hmget")
	return n
}
