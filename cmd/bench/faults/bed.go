package faults

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// setup says what stands behind the replicas of a run.
type setup struct {
	redis func(ctx context.Context, b *bed) (url string) // nil: none
	nodes int                                            // of the chain; default 1
	links bool                                           // all is reached through links that can fail, and there are collections, in PostgreSQL
	stops bool                                           // nodes are reached through processes that can be stopped
	clock bool                                           // the wall clock of each replica can be set
	env   []string                                       // of the replicas, as in KEY=value
	flags []string                                       // of the replicas

	smallMemory bool // the replicas have a cache of plan.memory
}

// A bed is what the clients of a run ask, and what stands behind it.
type bed struct {
	*rig.Rig
	plan     plan
	setup    setup
	chain    *devnet.Devnet
	nodes    []*devnet.Node
	judge    *devnet.Node // the same chain, asked by this program alone
	clock    *clients.Clock
	redis    *rig.Redis    // the only one, if there is one
	failover *rig.Failover // else
	links    map[string]link
	relays   []*rig.Process // two for each node: REST and CometBFT
	replicas []*replica
	program  string   // of the replicas; "" is tipcache
	keys     []string // that are answered by the nodes
	pages    []string // that are answered from the store
	unpinned []string // that CometBFT answers, whatever the height: of the dialect cosmos alone
	history  clients.History

	began  time.Time
	lowest int64 // the lowest that the chain was
	forks  []clients.Fork
	trials []trial
	mu     sync.Mutex
	notes  []string
}

// blockTime is the time between two blocks.
const blockTime = time.Second

func newBed(ctx context.Context, r *rig.Rig, p plan, s setup) *bed {
	b := &bed{Rig: r, plan: p, setup: s, links: map[string]link{}}
	if s.clock { // which takes minutes, in which no chain is to go on
		b.program = b.WithClock(ctx)
	}
	b.began = time.Now()
	fault := devnet.Fault{Latency: b.plan.nodeLatency}
	b.chain = b.Chain(devnet.Options{Seed: 1, Interval: blockTime, Faults: devnet.Faults{Node: fault}})
	b.clock, b.lowest = clients.NewClock(b.chain.Height), b.chain.Height()
	b.forks = []clients.Fork{{Began: b.began, From: b.lowest}}
	b.nodes, b.judge = rig.Nodes(b.chain, b.setup.nodes), rig.Must(b.chain.AddNode(devnet.NodeOptions{}))
	b.chooseKeys(p.keys + p.lone)
	b.startReplicas(ctx, b.serving(ctx))
	return b
}

// chooseKeys takes n distinct requests whose answers a block may change.
func (b *bed) chooseKeys(n int) {
	paths := []string{"/staking/validators", "/staking/pool", "/staking/validators?pagination.limit=5&status=BOND_STATUS_BONDED"}
	for _, v := range b.chain.Validators() {
		paths = append(paths, "/staking/validators/"+v, "/staking/validators/"+v+"/delegations?pagination.limit=20")
	}
	if b.Dialect == devnet.Cosmos { // it has few validators
		for _, v := range b.chain.Validators() {
			paths = append(paths, "/distribution/validators/"+v+"/outstanding_rewards", "/distribution/validators/"+v+"/commission")
		}
		for _, d := range b.chain.Delegators() {
			paths = append(paths, "/distribution/delegators/"+d+"/rewards")
		}
		b.unpinned = unpinnedKeys
	}
	if n > len(paths) {
		rig.Check(fmt.Errorf("%w: at most %d keys", rig.ErrUsage, len(paths)))
	}
	b.keys = b.Paths(paths[:n]...)
}

// unpinnedKeys are one of each class that is not read at a height.
var unpinnedKeys = []string{
	"/cosmos/base/tendermint/v1beta1/blocks/latest", "/cosmos/base/tendermint/v1beta1/blocks/100", "/cosmos/tx/v1beta1/txs/" + cosmos.DelegateTx,
}

// startReplicas starts each when the one before is ready.
func (b *bed) startReplicas(ctx context.Context, s rig.Serving) {
	for i := range b.plan.replicas {
		own := s
		own.Env = append(slices.Clone(s.Env), b.SetClock(clockOf(i), 0))
		t := b.Replica(ctx, own)
		r := &replica{Replica: t, addrs: []string{rig.Host(t.URL)}}
		if b.setup.links {
			r.addrs = append(r.addrs, b.through(clientLink, r.addrs[0]))
		}
		r.ready.Store(true)
		b.replicas = append(b.replicas, r)
	}
}

// note keeps a line of what happened for the report.
func (b *bed) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, fmt.Sprintf("   %5.1fs  ", time.Since(b.began).Seconds())+fmt.Sprintf(format, args...))
}

// printNotes prints the lines of what happened.
func (b *bed) printNotes(w io.Writer) {
	for _, n := range b.notes {
		fmt.Fprintln(w, n)
	}
}

// loneBlocks is how many half blocks a client that is alone with its key lets pass
// between two requests: more than one block, so that its answer has grown old.
const loneBlocks = 5

// drive lets the clients ask while something is done, which begins after a pause.
func (b *bed) drive(ctx context.Context, pause time.Duration, do func(context.Context)) {
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	all.Go(func() { b.clock.Watch(asking) })
	for _, r := range b.replicas {
		all.Go(func() { r.watch(asking) })
	}
	polling := clients.Polling{
		Clients: b.plan.clients, Keys: slices.Concat(b.keys[:b.plan.keys], b.pages, b.unpinned), Pause: b.plan.poll, Clock: b.clock, Server: b.balance, History: &b.history,
	}
	all.Go(func() { polling.Run(asking) })
	if lone := polling; b.plan.lone > 0 {
		lone.Clients, lone.Keys, lone.Alone, lone.Pause = b.plan.lone, b.keys[b.plan.keys:], true, loneBlocks*blockTime/2
		all.Go(func() { lone.Run(asking) })
	}
	if rig.Pause(ctx, pause) {
		do(ctx)
	}
}

// balance returns the address for the next request of a client: that of its own
// replica, or of the next one that takes requests. Every other client of two is
// behind a link, where there are any.
func (b *bed) balance(client int) string {
	own := b.replicas[client%len(b.replicas)]
	for n := range b.replicas {
		if r := b.replicas[(client+n)%len(b.replicas)]; r.ready.Load() {
			own = r
			break
		}
	}
	return own.addrs[client/len(b.replicas)%len(own.addrs)]
}
