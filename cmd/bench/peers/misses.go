package peers

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	missClients = 64
	missBytes   = 64 << 20 // of all responses of one run; nginx keeps them in memory
	mostMisses  = 5_000    // nginx can hold the names of 80,000
	browser     = "Accept-Encoding: gzip, deflate, br, zstd"
)

// A missCase requests each response once, or, on a Cosmos SDK chain, one that no server may cache.
type missCase struct {
	name    string
	kind    kind
	headers []string
	dialect devnet.Dialect
}

func (c missCase) String() string { return c.name }

var missCases = []missCase{
	{name: "miss, 1 KB", kind: small},
	{name: "miss, 1 KB, a browser", kind: small, headers: []string{browser}},
	{name: "miss, 51 KB", kind: large},
	{name: "miss, 51 KB, a browser", kind: large, headers: []string{browser}},
	{name: "miss, 515 KB", kind: huge},
	{name: "pass-through", dialect: devnet.Cosmos},
}

// passedPath is not cached by tipcache, nor by nginx with this configuration.
const passedPath = "/cosmos/base/tendermint/v1beta1/node_info?passed=1"

// Misses measures the CPU of responses that a server must read from the node.
func Misses(ctx context.Context, r *rig.Rig) {
	var rows [][]string
	for _, c := range rig.CasesOf(r, missCases) {
		rows = append(rows, c.run(ctx, r)...)
		r.Stop()
	}
	report(r, "misses", rows)
	r.Note("Each request has a new key. The node is part of this program and answers without delay.")
}

// run measures tipcache and nginx in turn, in front of one node without delay.
func (c missCase) run(ctx context.Context, r *rig.Rig) [][]string {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: -1, Dialect: c.dialect})
	var flags []string
	if c.dialect == "" {
		flags = []string{"--shape", "node"}
	}
	node := startBusyNode(r, chain, 0)
	o := origin{node: node.url, comet: chain.CometURL(), fresh: time.Second}
	return compare(ctx, r, []int{missClients}, beforeAll(ctx, r, []string{tipcacheName, nginxName}, o, flags...), []subject{{c.name, plain, func(ctx context.Context, s *peer, connections int) result {
		paths, before := c.paths(r), node.served.Load()
		came := once(ctx, s.Process, s.urls[plain], connections, paths, c.headers...)
		if read := node.served.Load() - before; read < int64(len(paths)) {
			rig.Check(fmt.Errorf("the node was read %d times for %d responses, so some were not misses", read, len(paths)))
		}
		return came
	}}})
}

// asked makes each key unique.
var asked atomic.Int64

func (c missCase) paths(r *rig.Rig) []string {
	n := rig.Sized(r, mostMisses, 100)
	if c.dialect == devnet.Cosmos {
		return slices.Repeat([]string{passedPath}, n)
	}
	all := make([]string, min(missBytes/sizes[c.kind], n))
	for i := range all {
		all[i] = busyPath(c.kind, asked.Add(1))
	}
	return all
}
