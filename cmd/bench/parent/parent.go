// Package parent compares two versions of tipcache: what a hit, a miss, a block and an event cost each.
package parent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/bench/streams"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	connections = 16
	followers   = 100
	blocks      = 5  // in one measurement of blocks
	eventBlocks = 25 // in one of events
)

// A program is one version, before a chain of its own.
type program struct {
	*rig.Replica
	chain     *devnet.Devnet
	crowd     clients.Crowd
	misses    int // sent so far
	followers *streams.Followers
}

// A cost is what one unit of work takes: a request, or an event.
type cost struct{ cpu, mallocs, reads float64 }

// A work is a load that costs each program the same number of units each time.
type work struct {
	name string
	path string // whose node requests count
	do   func(ctx context.Context, r *rig.Rig, p *program) (units int)
}

var works = []work{
	{"hit", hitPath, hits},
	{"miss", missPath, misses},
	{"block", blockPath, renewals},
	{"event", streams.ChangingPath, events},
}

const hitPath, missPath, blockPath = "/staking/params", "/staking/delegations/0x1", "/staking/delegations/0x2"

// Compare runs both programs in turns. It prints the ratios of CPU, and fails where this program takes
// more allocations or node requests for a unit of work than its parent.
func Compare(ctx context.Context, r *rig.Rig) {
	if r.Parent == "" {
		r.Note("parent: skipped, since -parent names no program.")
		return
	}
	both := [2]*program{start(ctx, r, rig.Must(filepath.Abs(r.Parent))), start(ctx, r, "")}
	var rows [][]string
	for _, w := range works {
		var costs [2][]cost
		for round := range r.Rounds + 1 {
			for i := range both {
				at := (round + i) % 2 // each begins in every other round
				if c := w.measure(ctx, r, both[at]); round > 0 {
					costs[at] = append(costs[at], c)
				}
			}
		}
		rows = append(rows, w.row(r, costs[0], costs[1]))
	}
	r.Table("this program and its parent, per request or event", []string{
		"work", "CPU, ratio", "allocations", "of the parent", "node requests", "of the parent",
	}, rows)
	r.Note("Medians of %d rounds in turns, after one that does not count.", r.Rounds)
}

// row compares the medians. Background work and the reading of the metrics allocate too, so a tenth and two
// allocations more are no failure.
func (w work) row(r *rig.Rig, parent, child []cost) []string {
	median := func(of func(cost) float64) (before, now float64) {
		return figures.MedianOf(parent, of), figures.MedianOf(child, of)
	}
	mallocsBefore, mallocsNow := median(func(c cost) float64 { return c.mallocs })
	readsBefore, readsNow := median(func(c cost) float64 { return c.reads })
	if mallocsNow > 1.1*mallocsBefore+2 {
		r.Broken(fmt.Errorf("%s: %.1f allocations, the parent has %.1f", w.name, mallocsNow, mallocsBefore))
	}
	if readsNow > readsBefore+0.01 {
		r.Broken(fmt.Errorf("%s: %.2f node requests, the parent has %.2f", w.name, readsNow, readsBefore))
	}
	ratio := figures.MedianRatio(child, parent, func(c cost) float64 { return c.cpu })
	return figures.Row(w.name, ratio, mallocsNow, mallocsBefore, readsNow, readsBefore)
}

func start(ctx context.Context, r *rig.Rig, bin string) *program {
	p := &program{chain: r.Chain(rig.Still)}
	serving := rig.Before(p.chain)
	serving.Bin = bin
	serving.Env = []string{"TIPCACHE_HTTP_CLIENT_STREAMS=1000"}
	p.Replica = r.Replica(ctx, serving)
	p.crowd = clients.NewCrowd(rig.Host(p.URL), connections)
	r.OnStop(p.crowd.Close)
	return p
}

func (w work) measure(ctx context.Context, r *rig.Rig, p *program) cost {
	allocated := func() float64 { return rig.Must(p.Metrics(ctx)).Sum("go_memstats_mallocs_total") }
	reads, mallocs, units := p.chain.Stats().Node.Of(w.path), allocated(), 0
	spent := rig.Spent(p.Process, func() { units = w.do(ctx, r, p) })
	n := float64(units)
	return cost{spent.Seconds() / n, (allocated() - mallocs) / n, float64(p.chain.Stats().Node.Of(w.path)-reads) / n}
}

func hits(ctx context.Context, r *rig.Rig, p *program) int {
	paths := slices.Repeat([]string{hitPath}, rig.Sized(r, 20_000, 1_000))
	_ = rig.Must(p.crowd.Once(ctx, paths))
	return len(paths)
}

func misses(ctx context.Context, r *rig.Rig, p *program) int {
	paths := numbered(missPath, p.misses, rig.Sized(r, 2_000, 100))
	p.misses += len(paths)
	_ = rig.Must(p.crowd.Once(ctx, paths))
	return len(paths)
}

// renewals asks for the same keys at each block, often enough that they are read ahead.
func renewals(ctx context.Context, r *rig.Rig, p *program) int {
	paths := numbered(blockPath, 0, rig.Sized(r, 300, 50))
	for range blocks {
		p.chain.Advance(1)
		_ = rig.Must(p.crowd.Once(ctx, slices.Repeat(paths, 2), fmt.Sprintf("X-Min-Block-Height: %d", p.chain.Height())))
	}
	return blocks * len(paths)
}

// numbered returns n paths with the numbers after a given one.
func numbered(path string, after, n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s%039x", path, after+i+1)
	}
	return paths
}

func events(ctx context.Context, _ *rig.Rig, p *program) int {
	if p.followers == nil {
		p.followers = streams.Follow(ctx, rig.Host(p.URL), p.chain, followers)
		p.followers.Await()
	}
	for range eventBlocks {
		p.chain.Advance(1)
		p.followers.Await()
	}
	return eventBlocks * followers
}
