package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func freshnessPart() part {
	return part{
		name:  "freshness",
		about: "a chain that moves: what the node is asked per key and block, how old answers are",
		needs: []tool{nginxTool, varnishTool},
		run:   runFreshness,
	}
}

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
	clock   blockClock
	groups  []keyGroup
	servers []*freshServer
}

// freshServer is one of those compared, asked at the same time as the others.
type freshServer struct {
	name string
	node *devnet.Node
	url  string
	seen sightings
}

func runFreshness(ctx context.Context, b *bench) error {
	f, err := newFreshness(ctx, b)
	if err != nil {
		return err
	}
	defer f.chain.Close()
	blocks := int64(freshBlocks)
	if b.short {
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
	b.out.table(fmt.Sprintf("freshness: %d clients on %d keys for %d blocks of %v, node latency %v", freshClients, f.keys(), last-first, blockTime, nodeTakes),
		[]string{"keys", "server", "answers", "node requests per key and block", "most", "behind %", "one block %", "p99 staleness s", "failed"}, rows)
	b.out.note("An answer is behind when the node's own had changed before the request was sent; its staleness is the time since then. nginx and Varnish keep answers for %v, without grace.", peersFresh)
	return nil
}

func newFreshness(ctx context.Context, b *bench) (_ *freshnessRun, err error) {
	f := &freshnessRun{}
	if f.chain, err = devnet.New(devnet.Options{Seed: 1, Interval: blockTime}); err != nil {
		return nil, err
	}
	if err := f.chain.Start(); err != nil {
		return nil, err
	}
	if err = f.prepare(ctx, b); err != nil {
		_ = f.chain.Close()
	}
	return f, err
}

func (f *freshnessRun) prepare(ctx context.Context, b *bench) (err error) {
	if f.judge, err = f.chain.AddNode(devnet.NodeOptions{}); err != nil {
		return err
	}
	for _, name := range []string{"tipcache", "Varnish", "nginx"} {
		s := &freshServer{name: name}
		if s.node, err = f.chain.AddNode(devnet.NodeOptions{}); err != nil {
			return err
		}
		if err := s.node.SetFaults(devnet.Fault{Latency: nodeTakes}, devnet.Fault{}); err != nil {
			return err
		}
		if s.url, err = b.beforeMoving(ctx, name, s.node); err != nil {
			return err
		}
		f.servers = append(f.servers, s)
	}
	f.groups, err = f.chooseKeys(ctx)
	return err
}

// beforeMoving starts a server before the node. tipcache gives the node's own
// bytes, as the others do, so that one judge does for all.
func (b *bench) beforeMoving(ctx context.Context, name string, node *devnet.Node) (string, error) {
	switch name {
	case "Varnish":
		v, err := b.varnish(ctx, node.RESTURL(), peersFresh, 0)
		if err != nil {
			return "", err
		}
		return v.url, nil
	case "nginx":
		n, err := b.nginx(ctx, node.RESTURL(), peersFresh)
		if err != nil {
			return "", err
		}
		return n.plain, nil
	}
	t, err := b.tipcache(ctx, &devnetProc{rest: node.RESTURL(), comet: node.CometURL()}, "--shape", "node")
	if err != nil {
		return "", err
	}
	return t.url, nil
}

// chooseKeys takes ten keys that every block changes, ten of the same class
// that few blocks do, and five that hardly ever change.
func (f *freshnessRun) chooseKeys(ctx context.Context) ([]keyGroup, error) {
	list, err := get(ctx, f.judge.RESTURL()+"/staking/validators?pagination.limit=20")
	if err != nil {
		return nil, err
	}
	var each []string
	few := []string{"/staking/validators", "/staking/pool"}
	for i, v := range gjson.Get(list, "msg.validators.#.operator_address").Array() {
		if i < 10 {
			each = append(each, "/distribution/validators/"+v.String()+"/outstanding_rewards")
		} else if len(few) < 10 {
			few = append(few, "/staking/validators/"+v.String())
		}
	}
	return []keyGroup{
		{"live, each block", each},
		{"live, few blocks", few},
		{"params", []string{"/staking/params", "/distribution/params", "/auth/params", "/mint/params", "/slashing/params"}},
	}, nil
}

func (f *freshnessRun) keys() (n int) {
	for _, g := range f.groups {
		n += len(g.keys)
	}
	return n
}

// poll lets the clients ask for so many blocks, from the beginning of one to the
// beginning of another, and returns their heights.
func (f *freshnessRun) poll(ctx context.Context, blocks int64) (first, last int64, err error) {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { f.clock.watch(ctx, f.chain) })
	defer watching.Wait()
	defer stop()
	first = f.clock.wait(ctx, f.chain.Height()+1)
	for _, s := range f.servers {
		s.node.ResetStats()
	}
	polling, end := context.WithCancel(ctx)
	defer end()
	var clients sync.WaitGroup
	for _, s := range f.servers {
		for range freshClients {
			clients.Go(func() { s.seen.client(polling, &f.clock, s.url, f.groups) })
		}
	}
	last = f.clock.wait(ctx, first+blocks)
	end()
	clients.Wait()
	fmt.Fprintf(os.Stderr, "freshness: blocks %d to %d done\n", first, last)
	return first, last, context.Cause(ctx)
}
