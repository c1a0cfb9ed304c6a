package peers

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	missClients = 64
	missBytes   = 64 << 20 // of all answers of one run, at most: nginx keeps them in memory
	mostMisses  = 5_000    // nginx has room for the names of 80,000
	browser     = "Accept-Encoding: gzip, deflate, br, zstd"
)

// A missCase is answers of which each is asked for once, or, of a chain of the Cosmos SDK, one
// that no server is to keep.
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

// passedPath is passed through by tipcache, and by nginx as it is told.
const passedPath = "/cosmos/base/tendermint/v1beta1/node_info?passed=1"

// Misses measures what a server costs that has to ask.
func Misses(ctx context.Context, r *rig.Rig) {
	var rows [][]string
	for _, c := range rig.CasesOf(r, missCases) {
		rows = append(rows, c.run(ctx, r)...)
		r.Stop()
	}
	report(r, "misses", rows)
	r.Note("Each answer is of another key, which nobody asked for before. The node is a part of this program, and answers at once.")
}

// run measures tipcache and nginx in turns, before one node that takes no time.
func (c missCase) run(ctx context.Context, r *rig.Rig) [][]string {
	still := rig.Still
	still.Dialect = c.dialect
	chain := r.Chain(still)
	var flags []string
	if c.dialect == "" {
		flags = []string{"--shape", "node"}
	}
	o := origin{node: startBusyNode(r, chain, 0).url, comet: chain.CometURL(), fresh: time.Second}
	return compare(ctx, r, []int{missClients}, beforeAll(ctx, r, []string{tipcacheName, loggedName}, o, flags...), []subject{{c.name, plain, func(ctx context.Context, s *peer, connections int) result {
		crowd := clients.NewCrowd(rig.Host(s.urls[plain]), connections)
		defer crowd.Close()
		rig.Check(crowd.Gather(ctx, c.path()))
		requests := c.requests(r)
		return spend(func() clients.Loaded { return rig.Must(crowd.Once(ctx, requests)) }, s.Process)
	}}})
}

// asked makes each key another one than all before.
var asked atomic.Int64

func (c missCase) path() string {
	if c.dialect == devnet.Cosmos {
		return passedPath
	}
	return busyPath(c.kind, asked.Add(1))
}

func (c missCase) requests(r *rig.Rig) [][]byte {
	n := rig.Sized(r, mostMisses, 100)
	if size := sizes[c.kind]; c.dialect == "" {
		n = min(missBytes/size, n)
	}
	all := make([][]byte, n)
	for i := range all {
		all[i] = clients.Request("GET", c.path(), "", c.headers...)
	}
	return all
}
