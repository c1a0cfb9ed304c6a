package peers

import (
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
		all = append(all, missCase{name, size << 10, nil}, missCase{name + ", a browser", size << 10, []string{browser}})
	}
	return append(all, missCase{name: "pass-through"})
}

// Misses measures what a server costs that has to ask.
func Misses(ctx context.Context, r *rig.Rig) error {
	cases, err := chooseCases(missCases(), r.Cases, func(c missCase) string { return c.name })
	if err != nil {
		return err
	}
	var rows [][]string
	for _, c := range cases {
		row, err := c.run(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, row)
		r.Stop()
	}
	r.Table("misses", []string{"case", "CPU s/100k", nginxName, "ratio", "p50 ms", nginxName, "ratio"}, rows)
	r.Note("%d clients, each answer of another key, which nobody asked for before; nginx with its log. The node is a part of this program, and answers at once. Medians of %d rounds.", missClients, r.Rounds)
	return nil
}

// run measures both servers in turns.
func (c missCase) run(ctx context.Context, r *rig.Rig) ([]string, error) {
	spoken, flags := r.Dialect, []string{"--shape", "node"}
	if c.size == 0 {
		r.Dialect, flags = devnet.Cosmos, nil
	}
	defer func() { r.Dialect = spoken }()
	servers, err := c.servers(ctx, r, flags)
	if err != nil {
		return nil, err
	}
	results := make([][]missResult, len(servers))
	err = r.Interleave(c.name, len(servers), func(i int) error {
		result, err := c.measure(ctx, r, servers[i])
		results[i] = append(results[i], result)
		return err
	})
	return c.row(results), err
}

// servers starts tipcache and nginx before one node that takes no time.
func (c missCase) servers(ctx context.Context, r *rig.Rig, flags []string) (servers []*peer, err error) {
	chain, err := r.Chain(rig.Still)
	if err != nil {
		return nil, err
	}
	node, err := startBusyNode(r, chain, 0)
	if err != nil {
		return nil, err
	}
	node.fill(c.size)
	for _, name := range []string{tipcacheName, nginxName} {
		p, err := before(ctx, r, name, origin{node: node.url, comet: chain.CometURL(), fresh: time.Second}, flags...)
		if err != nil {
			return nil, err
		}
		servers = append(servers, p)
	}
	return servers, nil
}

// row has CPU and waits of both servers.
func (c missCase) row(results [][]missResult) []string {
	row := []any{c.name}
	for of := range len(missResult{}) {
		column := func(server int) []float64 {
			return figures.Each(results[server], func(r missResult) float64 { return r[of] })
		}
		row = append(row, figures.Median(column(0)), figures.Median(column(1)), figures.Median(figures.Ratios(column(0), column(1))))
	}
	return figures.Row(row...)
}

// A missResult is CPU seconds per 100,000 requests, and the p50 in milliseconds.
type missResult [2]float64

// asked makes each key of a run another one than all before.
var asked atomic.Int64

func (c missCase) measure(ctx context.Context, r *rig.Rig, p *peer) (result missResult, err error) {
	n := min(missBytes/max(c.size, 1), mostMisses)
	if r.Short {
		n = 100
	}
	addr := rig.Host(p.url)
	if p.logged != "" {
		addr = rig.Host(p.logged)
	}
	crowd := clients.NewCrowd(addr, missClients)
	defer crowd.Close()
	if err := crowd.Gather(ctx, r.Path(smallPath)); err != nil {
		return result, err
	}
	var waits []float64
	end := asked.Add(int64(n))
	var next atomic.Int64
	next.Store(end - int64(n))
	spent, err := rig.Spent(func() error {
		return crowd.Ask(ctx, func(int) ([]byte, bool) {
			i := next.Add(1)
			return clients.Request("GET", c.path(int(i)), "", c.headers...), i <= end
		}, func(a clients.Response) error { waits = append(waits, figures.Milliseconds(a.Took)); return nil })
	}, p.Process)
	if err != nil {
		return result, err
	}
	return missResult{spent[0].Seconds() / float64(n) * 1e5, figures.Median(waits)}, nil
}
