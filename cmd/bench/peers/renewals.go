package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// renewalsClients is the number of clients of each replica.
const renewalsClients = 64

// A renewalCase says how many replicas share a Redis, how many keys each of them serves, each twice per block on
// average, and whether each block changes the bodies.
type renewalCase struct {
	bodies         string
	still          bool
	replicas, keys int
}

func (c renewalCase) String() string {
	return fmt.Sprintf("%s, %d replicas, %d keys", c.bodies, c.replicas, c.keys)
}

var renewalCases = []renewalCase{
	{"unchanged", true, 3, 500}, {"unchanged", true, 5, 500}, {"unchanged", true, 3, 2000},
	{"changed, 1 KB", false, 3, 500}, {"changed, 1 KB", false, 5, 500}, {"changed, 1 KB", false, 3, 2000},
}

// Renewals measures the load on a Redis whose replicas each serve all keys at each block.
func Renewals(ctx context.Context, r *rig.Rig) {
	cases := rig.Sized(r, rig.CasesOf(r, renewalCases), []renewalCase{{"changed, 1 KB", false, 2, 500}})
	var rows [][]string
	for _, c := range cases {
		rows = append(rows, c.measure(ctx, r))
		r.Progress("renewals: %v", c)
	}
	r.Table(fmt.Sprintf("renewals: each key is requested twice per block (%v) from each replica", keysBlock),
		[]string{"bodies", "replicas", "keys", "Redis's CPU µs per key and block"}, rows)
}

// measure runs the replicas for some blocks, after a warm-up.
func (c renewalCase) measure(ctx context.Context, r *rig.Rig) []string {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: keysBlock})
	node, redis := startBusyNode(r, chain, busyLatency), r.Redis(ctx)
	node.still = c.still
	defer redis.Stop()
	keys := keysCase{keys: c.keys, rate: 2 * c.keys * int(time.Second) / int(keysBlock)}
	runs := make([]*keysRun, c.replicas)
	for i := range runs {
		t := r.Replica(ctx, rig.Serving{Node: node.url, Comet: chain.CometURL(), Flags: []string{"--shape", "node", "--redis", redis.URL()}})
		defer t.Stop()
		runs[i] = &keysRun{keysCase: keys, chain: chain, addr: rig.Host(t.URL), clients: renewalsClients}
	}
	spent := sustain(ctx, r, node, redis.Process, 3, 10, runs...)
	pairs, _, _ := node.reads(small)
	return figures.Row(c.bodies, c.replicas, c.keys, 1e6*spent.Seconds()/float64(pairs))
}
