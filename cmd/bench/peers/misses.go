package peers

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	missClients = 64
	missBytes   = 64 << 20 // of all answers of one run, at most: nginx keeps them in memory
	mostMisses  = 5_000    // nginx has room for the names of 80,000
	browser     = "Accept-Encoding: gzip, deflate, br, zstd"
)

// A missCase is answers of a size, which each is asked for once; or, without one, an answer
// that no server is to keep, of a chain of the Cosmos SDK.
type missCase struct {
	name    string
	size    int
	list    bool // of a chain's validators, which has as many bytes by itself; else of random numbers
	headers []string
}

// passedPath is passed through by tipcache, and by nginx as it is told.
const passedPath = "/cosmos/base/tendermint/v1beta1/node_info?passed=1"

func (c missCase) path(key int) string {
	if c.size == 0 {
		return passedPath
	}
	return busyPath(key)
}

// missCases are all there are.
func missCases() (all []missCase) {
	for _, size := range []int{1, 51, 515} {
		name := fmt.Sprintf("miss, %d KB", size)
		all = append(all, missCase{name, size << 10, false, nil}, missCase{name + ", a browser", size << 10, false, []string{browser}})
	}
	const list = "miss, a list of 51 KB"
	return append(all,
		missCase{list, 51 << 10, true, nil}, missCase{list + ", a browser", 51 << 10, true, []string{browser}},
		missCase{list + ", gzip alone", 51 << 10, true, []string{"Accept-Encoding: gzip"}}, missCase{name: "pass-through"})
}

// Misses measures what a server costs that has to ask.
func Misses(ctx context.Context, r *rig.Rig) {
	var rows [][]string
	for _, c := range chooseCases(missCases(), r.Cases, func(c missCase) string { return c.name }) {
		rows = append(rows, c.run(ctx, r))
		r.Stop()
	}
	r.Table("misses", []string{"case", "CPU s/100k", nginxName, "ratio", "p50 ms", nginxName, "ratio"}, rows)
	r.Note("%d clients, each answer of another key, which nobody asked for before; nginx with its log. The node is a part of this program, and answers at once. Medians of %d rounds.", missClients, r.Rounds)
}

// run measures tipcache and nginx in turns, before one node that takes no time.
func (c missCase) run(ctx context.Context, r *rig.Rig) []string {
	spoken, flags := r.Dialect, []string{"--shape", "node"}
	if c.size == 0 {
		r.Dialect, flags = devnet.Cosmos, nil
	}
	defer func() { r.Dialect = spoken }()
	chain := r.Chain(rig.Still)
	node := startBusyNode(r, chain, 0)
	if node.fill(c.size); c.list {
		node.fillWithList(ctx)
	}
	var servers []*peer
	for _, name := range []string{tipcacheName, nginxName} {
		servers = append(servers, before(ctx, r, name, origin{node: node.url, comet: chain.CometURL(), fresh: time.Second}, flags...))
	}
	all := make([][]served, len(servers))
	r.Interleave(c.name, len(servers), func(i int) { all[i] = append(all[i], c.measure(ctx, r, servers[i])) })
	row := []any{c.name}
	for _, of := range []int{servedCPU, servedP50} {
		ours, theirs := column(all[0], of), column(all[1], of)
		row = append(row, figures.Median(ours), figures.Median(theirs), figures.Median(figures.Ratios(ours, theirs)))
	}
	return figures.Row(row...)
}

// asked makes each key of a run another one than all before.
var asked atomic.Int64

func (c missCase) measure(ctx context.Context, r *rig.Rig, p *peer) served {
	n := min(missBytes/max(c.size, 1), mostMisses)
	if r.Short {
		n = 100
	}
	crowd := clients.NewCrowd(rig.Host(cmp.Or(p.logged, p.url)), missClients)
	defer crowd.Close()
	rig.Check(crowd.Gather(ctx, r.Path(smallPath)))
	requests := make([][]byte, n)
	for i := range requests {
		requests[i] = clients.Request("GET", c.path(int(asked.Add(1))), "", c.headers...)
	}
	return serve(ctx, crowd, requests, p.Process)
}
