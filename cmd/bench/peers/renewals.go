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
}

// Renewals measures what replicas cost the Redis that they share, while each of them is
// asked for all keys at each block.
func Renewals(ctx context.Context, r *rig.Rig) error {
	kinds, counts := []bool{true, false}, []int{1, 3, 5}
	if r.Short {
		kinds, counts = kinds[1:], []int{2}
	}
	var rows [][]string
	for _, still := range kinds {
		name := map[bool]string{true: "unchanged", false: "changed, 1 KB"}[still]
		cpu := map[int]float64{}
		for _, replicas := range counts {
			n, err := renew(ctx, r, replicas, still)
			if err != nil {
				return fmt.Errorf("%d replicas, %s: %w", replicas, name, err)
			}
			cpu[replicas] = n.cpu
			further := ""
			if before, ok := cpu[replicas-2]; ok {
				further = figures.Decimal((n.cpu - before) / 2)
			}
			rows = append(rows, figures.Row(name, replicas, n.cpu, further, n.commands, n.scripts, n.reads, n.published, n.asks))
		}
		r.Progress("renewals: %s", name)
	}
	r.Table(fmt.Sprintf("renewals: %d keys, each asked for twice in a block of %v at each replica", renewalsKeys, keysBlock),
		[]string{"bodies", "replicas", "Redis's CPU µs per key and block", "of these for each of the last two", "commands", "scripts", "hash reads", "messages", "node requests"}, rows)
	return nil
}

// renew runs so many replicas for some blocks.
func renew(ctx context.Context, r *rig.Rig, replicas int, still bool) (n renewal, err error) {
	chain, err := r.Chain(devnet.Options{Seed: 1, Interval: keysBlock})
	if err != nil {
		return n, err
	}
	node, err := startBusyNode(r, chain, busyTakes)
	if err != nil {
		return n, err
	}
	node.still = still
	redis, err := r.Redis(ctx)
	if err != nil {
		return n, err
	}
	defer redis.Stop()
	clock := clients.NewClock(chain.Height)
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	all.Go(func() { clock.Watch(asking) })
	keys := keysCase{keys: renewalsKeys, rate: 2 * renewalsKeys * int(time.Second) / int(keysBlock)}
	for range replicas {
		t, err := r.Replica(ctx, rig.Serving{Node: node.url, Comet: chain.CometURL(), Flags: []string{"--shape", "node", "--redis", redis.URL()}})
		if err != nil {
			return n, err
		}
		defer t.Stop()
		run := &keysRun{keysCase: keys, clock: clock, addr: rig.Host(t.URL), clients: renewalsClients, failed: map[string]int{}}
		all.Go(func() { run.ask(asking) })
	}
	warm, blocks := int64(3), int64(10)
	if r.Short {
		warm, blocks = 1, 1
	}
	first := clock.Wait(ctx, chain.Height()+warm)
	before, err := redis.Info(ctx)
	if err != nil {
		return n, err
	}
	node.counted.Store(first)
	clock.Wait(ctx, first+blocks)
	after, err := redis.Info(ctx)
	if err != nil {
		return n, err
	}
	return costs(node, before, after), nil
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
	n.scripts, n.reads = per("cmdstat_evalsha", "cmdstat_eval"), per("cmdstat_hget", "cmdstat_hmget")
	return n
}
