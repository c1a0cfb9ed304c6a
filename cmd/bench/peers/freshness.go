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

// freshServer is one of those compared, asked at the same time as the others, before a node
// of its own.
type freshServer struct {
	name    string
	node    *devnet.Node
	addr    string
	history clients.History
}

// Freshness measures servers before a chain that moves. tipcache gives the node's own bytes,
// as the others do, so that the answers of one more node are the truth for all.
func Freshness(ctx context.Context, r *rig.Rig) {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: blockTime})
	judge := rig.Must(chain.AddNode())
	var servers []*freshServer
	for _, name := range serverNames {
		node := rig.Must(chain.AddNode())
		rig.Check(node.SetFaults(devnet.Fault{Latency: nodeTakes}, devnet.Fault{}))
		p := before(ctx, r, name, origin{node: node.RESTURL(), comet: node.CometURL(), fresh: peersFresh}, "--shape", "node")
		servers = append(servers, &freshServer{name: name, node: node, addr: rig.Host(p.urls[plain])})
	}
	groups := keyGroups(r, chain.Validators())
	var keys []string
	for _, g := range groups {
		keys = append(keys, g.keys...)
	}
	first, last := poll(ctx, chain, servers, keys, rig.Sized[int64](r, freshBlocks, 3))
	truth := rig.Must(clients.Learn(ctx, judge.RESTURL(), keys, first-20, chain.Height(), nil, 0))
	var rows [][]string
	for _, g := range groups {
		for _, s := range servers {
			rows = append(rows, s.row(g, truth, chain, first, last))
		}
	}
	r.Table(fmt.Sprintf("freshness: %d clients on %d keys for %d blocks of %v, node latency %v", freshClients, len(keys), last-first, blockTime, nodeTakes),
		[]string{"keys", "server", "answers", "node requests per key and block", "most", "behind %", "p99 staleness s", "failed"}, rows)
	r.Note("An answer is behind when the node's own had changed before the request was sent; its staleness is the time since then. nginx and Varnish keep answers for %v, without grace.", peersFresh)
}

// keyGroups are up to ten keys that every block changes, up to ten of the same class
// that few blocks do, and five that hardly ever change.
func keyGroups(r *rig.Rig, validators []string) []keyGroup {
	var each []string
	few := []string{"/staking/validators", "/staking/pool"}
	for _, v := range validators[:min(10, len(validators))] {
		each = append(each, "/distribution/validators/"+v+"/outstanding_rewards")
	}
	for _, v := range validators[max(0, len(validators)-8):] {
		few = append(few, "/staking/validators/"+v)
	}
	return []keyGroup{
		{"live, each block", r.Paths(each...)},
		{"live, few blocks", r.Paths(few...)},
		{"params", r.Paths("/staking/params", "/distribution/params", "/auth/params", "/mint/params", "/slashing/params")},
	}
}

// poll lets clients ask all servers for so many blocks, from the beginning of one to the
// beginning of another, and returns their heights.
func poll(ctx context.Context, chain *devnet.Devnet, servers []*freshServer, keys []string, blocks int64) (first, last int64) {
	polling, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	first = clients.AwaitBlock(ctx, chain, chain.Height()+1)
	for _, s := range servers {
		p := clients.Polling{Clients: freshClients, Keys: keys, Pause: freshPause, Chain: chain, Server: func(int) string { return s.addr }, History: &s.history}
		all.Go(func() { p.Run(polling) })
	}
	last = clients.AwaitBlock(ctx, chain, first+blocks)
	end()
	all.Wait()
	rig.Check(ctx.Err())
	return first, last
}

// row is what a server answered to a group of keys, and asked of its node.
func (s *freshServer) row(g keyGroup, truth *clients.Truth, chain *devnet.Devnet, first, last int64) []string {
	l, asked, most := lateness{}, int64(0), int64(0)
	for _, a := range s.history.Answers {
		if slices.Contains(g.keys, a.Key) {
			l.judge(a, truth, chain)
		}
	}
	for _, a := range s.node.Stats().Asked {
		if slices.Contains(g.keys, a.URI) && first <= a.Height && a.Height < last {
			asked, most = asked+a.Count, max(most, a.Count)
		}
	}
	perPair := float64(asked) / float64(int64(len(g.keys))*(last-first))
	return figures.Row(g.name, s.name, len(l.staleness), perPair, most, figures.Percent(l.behind, len(l.staleness)), figures.Quantile(l.staleness, 0.99), l.failed)
}

// lateness of the answers of one group at one server.
type lateness struct {
	behind, failed int

	staleness []float64 // seconds, of all answers
}

// judge holds an answer against the truth.
func (l *lateness) judge(a clients.Answer, truth *clients.Truth, chain *devnet.Devnet) {
	if !a.OK() {
		l.failed++
		return
	}
	height, ok := truth.Until(a.Key, a.Hash, a.Tip+1) // the next block may have come on the way
	if !ok {
		rig.Check(fmt.Errorf("%s: %s gave an answer that the node never gave", a.Key, a.Server))
	}
	l.add(height, a, chain.CommittedAt(height+1))
}

// add notes an answer that was the node's own until the block after height.
func (l *lateness) add(height int64, a clients.Answer, ended time.Time) {
	stale := 0.0
	if height < a.Tip {
		l.behind++
		stale = a.Sent.Sub(ended).Seconds()
	}
	l.staleness = append(l.staleness, stale)
}
