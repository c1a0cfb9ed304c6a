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
func Freshness(ctx context.Context, r *rig.Rig) error {
	f, err := newFreshness(ctx, r)
	if err != nil {
		return err
	}
	blocks := int64(freshBlocks)
	if r.Short {
		blocks = 3
	}
	first, last, err := f.poll(ctx, blocks)
	if err != nil {
		return err
	}
	rows, err := f.rows(ctx, first, last)
	if err != nil {
		return err
	}
	r.Table(fmt.Sprintf("freshness: %d clients on %d keys for %d blocks of %v, node latency %v", freshClients, len(f.keys), last-first, blockTime, nodeTakes),
		[]string{"keys", "server", "answers", "node requests per key and block", "most", "behind %", "one block %", "p99 staleness s", "failed"}, rows)
	r.Note("An answer is behind when the node's own had changed before the request was sent; its staleness is the time since then. nginx and Varnish keep answers for %v, without grace.", peersFresh)
	return nil
}

// newFreshness starts each server before a node of its own. tipcache gives the
// node's own bytes, as the others do, so that one judge does for all.
func newFreshness(ctx context.Context, r *rig.Rig) (f *freshnessRun, err error) {
	f = &freshnessRun{}
	if f.chain, err = r.Chain(devnet.Options{Seed: 1, Interval: blockTime}); err != nil {
		return nil, err
	}
	f.clock = clients.NewClock(f.chain.Height)
	if f.judge, err = f.chain.AddNode(devnet.NodeOptions{}); err != nil {
		return nil, err
	}
	for _, name := range serverNames {
		node, err := f.chain.AddNode(devnet.NodeOptions{})
		if err != nil {
			return nil, err
		}
		if err := node.SetFaults(devnet.Fault{Latency: nodeTakes}, devnet.Fault{}); err != nil {
			return nil, err
		}
		p, err := before(ctx, r, name, origin{node: node.RESTURL(), comet: node.CometURL(), fresh: peersFresh}, "--shape", "node")
		if err != nil {
			return nil, err
		}
		f.servers = append(f.servers, &freshServer{name: name, node: node, addr: rig.Host(p.url)})
	}
	f.chooseKeys(r)
	return f, nil
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
func (f *freshnessRun) poll(ctx context.Context, blocks int64) (first, last int64, err error) {
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
	return first, last, ctx.Err()
}

// lateness of the answers of one group at one server.
type lateness struct {
	answers, behind, oneBlock, failed int

	staleness []float64 // seconds, of all answers
}

// rows has one for each group and server, the servers of a group together.
func (f *freshnessRun) rows(ctx context.Context, first, last int64) (rows [][]string, err error) {
	truth, err := clients.Learn(ctx, f.judge.RESTURL(), f.keys, first-20, f.chain.Height(), nil, 0)
	if err != nil {
		return nil, err
	}
	for _, g := range f.groups {
		for _, s := range f.servers {
			l, asked, most := lateness{}, int64(0), int64(0)
			for _, a := range s.history.Answers {
				if !slices.Contains(g.keys, a.Key) {
					continue
				}
				if err := l.judge(a, truth, f.clock); err != nil {
					return nil, fmt.Errorf("%s: %w", s.name, err)
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
	return rows, nil
}

// judge holds an answer against the truth.
func (l *lateness) judge(a clients.Answer, truth *clients.Truth, clock *clients.Clock) error {
	if !a.OK() {
		l.failed++
		return nil
	}
	height, ok := truth.Until(a.Key, a.Hash, a.Tip+1) // the next block may have come on the way
	if !ok {
		return fmt.Errorf("%s: an answer that the node never gave", a.Key)
	}
	l.add(height, a, clock.At(height+1))
	return nil
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
