package peers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// The pace of the real chain, and clients that poll it.
const (
	blockTime    = 2300 * time.Millisecond
	freshBlocks  = 25
	freshClients = 64 // at each server, over all keys
	freshPause   = 100 * time.Millisecond
	peersFresh   = time.Second           // how long the general caches keep answers
	nodeTakes    = 20 * time.Millisecond // for an answer
)

// keyGroup is keys that change alike. Each has the name of a table's row.
type keyGroup struct {
	name string
	keys []string
}

// freshnessRun is the chain, a node of it for every server, and one more whose
// answers are the truth.
type freshnessRun struct {
	chain   *devnet.Devnet
	judge   *devnet.Node
	clock   *clients.Clock
	groups  []keyGroup
	keys    []string // of all groups
	servers []*freshServer
}

// freshServer is one of those compared, asked at the same time as the others.
type freshServer struct {
	name    string
	node    *devnet.Node
	addr    string
	history clients.History
}

// Freshness measures servers before a chain that moves.
func Freshness(ctx context.Context, r *rig.Rig) {
	f, blocks := newFreshness(ctx, r), int64(freshBlocks)
	if r.Short {
		blocks = 3
	}
	first, last := f.poll(ctx, blocks)
	r.Table(fmt.Sprintf("freshness: %d clients on %d keys for %d blocks of %v, node latency %v", freshClients, len(f.keys), last-first, blockTime, nodeTakes),
		[]string{"keys", "server", "answers", "node requests per key and block", "most", "behind %", "one block %", "p99 staleness s", "failed"}, f.rows(ctx, first, last))
	r.Note("An answer is behind when the node's own had changed before the request was sent; its staleness is the time since then. nginx and Varnish keep answers for %v, without grace.", peersFresh)
}

// newFreshness starts each server before a node of its own. tipcache gives the
// node's own bytes, as the others do, so that one judge does for all.
func newFreshness(ctx context.Context, r *rig.Rig) *freshnessRun {
	f := &freshnessRun{chain: r.Chain(devnet.Options{Seed: 1, Interval: blockTime})}
	f.clock, f.judge = clients.NewClock(f.chain.Height), rig.Must(f.chain.AddNode(devnet.NodeOptions{}))
	for _, name := range serverNames {
		node := rig.Must(f.chain.AddNode(devnet.NodeOptions{}))
		rig.Check(node.SetFaults(devnet.Fault{Latency: nodeTakes}, devnet.Fault{}))
		p := before(ctx, r, name, origin{node: node.RESTURL(), comet: node.CometURL(), fresh: peersFresh}, "--shape", "node")
		f.servers = append(f.servers, &freshServer{name: name, node: node, addr: rig.Host(p.url)})
	}
	f.chooseKeys(r)
	return f
}

// chooseKeys takes up to ten keys that every block changes, up to ten of the same class
// that few blocks do, and five that hardly ever change.
func (f *freshnessRun) chooseKeys(r *rig.Rig) {
	validators := f.chain.Validators()
	var each []string
	few := []string{"/staking/validators", "/staking/pool"}
	for _, v := range validators[:min(10, len(validators))] {
		each = append(each, "/distribution/validators/"+v+"/outstanding_rewards")
	}
	for _, v := range validators[max(0, len(validators)-8):] {
		few = append(few, "/staking/validators/"+v)
	}
	f.groups = []keyGroup{
		{"live, each block", r.Paths(each...)},
		{"live, few blocks", r.Paths(few...)},
		{"params", r.Paths("/staking/params", "/distribution/params", "/auth/params", "/mint/params", "/slashing/params")},
	}
	for _, g := range f.groups {
		f.keys = append(f.keys, g.keys...)
	}
}

// poll lets the clients ask for so many blocks, from the beginning of one to the
// beginning of another, and returns their heights.
func (f *freshnessRun) poll(ctx context.Context, blocks int64) (first, last int64) {
	polling, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { f.clock.Watch(polling) })
	first = f.clock.Wait(ctx, f.chain.Height()+1)
	for _, s := range f.servers {
		s.node.ResetStats()
		p := clients.Polling{
			Clients: freshClients, Keys: f.keys, Pause: freshPause, Clock: f.clock,
			Server: func(int) string { return s.addr }, History: &s.history,
		}
		all.Go(func() { p.Run(polling) })
	}
	last = f.clock.Wait(ctx, first+blocks)
	end()
	all.Wait()
	rig.Check(ctx.Err())
	return first, last
}

// lateness of the answers of one group at one server.
type lateness struct {
	answers, behind, oneBlock, failed int

	staleness []float64 // seconds, of all answers
}

// rows has one for each group and server, the servers of a group together.
func (f *freshnessRun) rows(ctx context.Context, first, last int64) (rows [][]string) {
	truth := rig.Must(clients.Learn(ctx, f.judge.RESTURL(), f.keys, first-20, f.chain.Height(), nil, 0))
	for _, g := range f.groups {
		for _, s := range f.servers {
			l, asked, most := lateness{}, int64(0), int64(0)
			for _, a := range s.history.Answers {
				if slices.Contains(g.keys, a.Key) {
					l.judge(a, truth, f.clock)
				}
			}
			for _, a := range s.node.Stats().Asked {
				if slices.Contains(g.keys, a.URI) && first <= a.Height && a.Height < last {
					asked, most = asked+a.Count, max(most, a.Count)
				}
			}
			perPair := float64(asked) / float64(int64(len(g.keys))*(last-first))
			rows = append(rows, figures.Row(g.name, s.name, l.answers, perPair, most, figures.Percent(l.behind, l.answers), figures.Percent(l.oneBlock, l.answers),
				figures.Quantile(l.staleness, 0.99), l.failed))
		}
	}
	return rows
}

// judge holds an answer against the truth.
func (l *lateness) judge(a clients.Answer, truth *clients.Truth, clock *clients.Clock) {
	if !a.OK() {
		l.failed++
		return
	}
	height, ok := truth.Until(a.Key, a.Hash, a.Tip+1) // the next block may have come on the way
	if !ok {
		rig.Check(fmt.Errorf("%s: %s gave an answer that the node never gave", a.Key, a.Server))
	}
	l.add(height, a, clock.At(height+1))
}

// add notes an answer that was the node's own until the block after height.
func (l *lateness) add(height int64, a clients.Answer, ended time.Time) {
	l.answers++
	stale := 0.0
	if height < a.Tip {
		l.behind++
		stale = a.Sent.Sub(ended).Seconds()
	}
	if height == a.Tip-1 {
		l.oneBlock++
	}
	l.staleness = append(l.staleness, stale)
}
