package faults

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A setup configures the servers and the replicas of a run.
type setup struct {
	redis func(ctx context.Context, b *bed) (url string) // nil for none
	nodes int                                            // nodes of the chain; default 1
	links bool                                           // every server is reached through a link that can fail, and collections are served from PostgreSQL
	stops bool                                           // nodes are reached through processes that can be stopped
	apis  bool                                           // the replicas also serve RPC and gRPC, and read by gRPC if the nodes have it
	keep  int64                                          // heights that the nodes keep; 0 for all
	pools bool                                           // clients use sessions, and reach the replicas through an nginx that pools connections
	env   []string                                       // of the replicas, as in KEY=value

	regions bool // the replicas read a parent in place of the nodes

	once    bool           // each key may be read only once per block
	dialect devnet.Dialect // of the nodes; "" for the dialect of the run
	tls     bool           // the public listeners use TLS
	memory  int            // MiB of the replicas' cache.memory; 0 for the default
}

// A bed holds the replicas and servers of a run, and the responses that its clients got.
type bed struct {
	*rig.Rig
	plan     *campaign
	setup    setup
	chain    *devnet.Devnet
	nodes    []*devnet.Node
	judge    *devnet.Node  // node of the same chain that only this program reads
	redis    *rig.Redis    // nil for none or several
	failover *rig.Failover // nil unless there are several Redis servers
	links    map[string]link
	relays   []*rig.Process // two for each node: REST and CometBFT
	parent   *rig.Replica   // of the replicas; nil without regions
	replicas []*replica
	ingress  string   // address of the nginx in front of the replicas; "" for none
	keys     []string // requests answered by the nodes
	pages    []string // requests answered from the store
	unpinned []string // requests answered by CometBFT without a height; dialect cosmos only
	history  clients.History
	control  clients.History // of clients of the ingress without a session

	opened, sent atomic.Int64 // connections and complete requests of hostile clients

	began  time.Time
	lowest int64 // lowest height of the chain so far
	forks  []clients.Fork
	trials []trial
}

const (
	blockTime = time.Second            // between two blocks
	pollPause = 200 * time.Millisecond // average pause of a client between two requests
)

func newBed(ctx context.Context, r *rig.Rig, p *campaign, s setup) *bed {
	b := &bed{Rig: r, plan: p, setup: s, links: map[string]link{}, began: time.Now()}
	b.chain = b.Chain(devnet.Options{Seed: 1, Interval: blockTime, Dialect: s.dialect, Faults: devnet.Faults{Node: devnet.Fault{Latency: nodeLatency}}})
	b.lowest = b.chain.Height()
	b.forks = []clients.Fork{{Began: b.began, From: b.lowest}}
	b.nodes, b.judge = []*devnet.Node{b.chain.Node()}, b.AddNode(b.chain)
	for len(b.nodes) < s.nodes {
		b.nodes = append(b.nodes, b.AddNode(b.chain))
	}
	for _, n := range b.nodes {
		if s.keep > 0 {
			n.SetKeepRecent(s.keep)
		}
	}
	b.chooseKeys(p.keys)
	b.startReplicas(ctx, b.serving(ctx))
	if s.pools {
		b.startIngress(ctx)
	}
	return b
}

// chooseKeys selects n distinct requests whose responses can change at a block.
func (b *bed) chooseKeys(n int) {
	paths := []string{"/staking/validators", "/staking/pool", "/staking/validators?pagination.limit=5&status=BOND_STATUS_BONDED"}
	for _, v := range b.chain.Validators() {
		paths = append(paths, "/staking/validators/"+v, "/staking/validators/"+v+"/delegations?pagination.limit=20")
	}
	if b.chain.Dialect() == devnet.Cosmos { // it has few validators
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
	for _, path := range paths[:n] {
		if module, rest, _ := strings.Cut(path[1:], "/"); b.chain.Dialect() == devnet.Cosmos {
			path = "/cosmos/" + module + "/v1beta1/" + rest
		}
		b.keys = append(b.keys, path)
	}
}

// unpinnedKeys has one request of each class that is not read at a height.
var unpinnedKeys = []string{
	"/cosmos/base/tendermint/v1beta1/blocks/latest", "/cosmos/base/tendermint/v1beta1/blocks/100", "/cosmos/tx/v1beta1/txs/" + cosmos.DelegateTx,
}

// startReplicas starts the replicas one after another.
func (b *bed) startReplicas(ctx context.Context, s rig.Serving) {
	if b.setup.regions {
		rpc := rig.FreeAddr()
		s.Flags = append(s.Flags, "--rpc-listen", rpc)
		b.parent = b.Replica(ctx, s)
		s = rig.Serving{Node: b.parent.URL, Comet: "http://" + rpc, Env: s.Env, Flags: []string{"--shape", "node"}}
	}
	for n := range b.plan.replicas {
		own, calls, grpc := s, rig.FreeAddr(), rig.FreeAddr()
		if b.setup.apis {
			own.Flags = slices.Concat(s.Flags, []string{"--rpc-listen", calls, "--grpc-listen", grpc})
		}
		if b.setup.regions { // latencies repeat from the fourth child on
			own = b.behind(parentLink, s)
			latency := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, []int{20, 100, 250}[n%3])
			rig.Check(b.links[parentLink][2*n:].fail(latency))
		}
		t := b.Replica(ctx, own)
		if b.setup.pools && !b.setup.regions && n == 0 { // links can delay blocks for the other replicas
			s = b.behind(nodeLink, s)
		}
		r := &replica{Replica: t, addrs: []string{rig.Host(t.URL)}, rpc: calls, grpc: grpc}
		if b.setup.links {
			r.addrs = append(r.addrs, b.through(clientLink, r.addrs[0]))
		}
		r.ready.Store(true)
		b.replicas = append(b.replicas, r)
	}
}

// startIngress starts an nginx in front of all replicas. Its clients share its connections to them.
func (b *bed) startIngress(ctx context.Context) {
	servers := ""
	for _, r := range b.replicas {
		servers += "server " + r.addrs[0] + " max_fails=0; "
	}
	b.ingress = b.Nginx(ctx, func(_, addr string) string {
		return fmt.Sprintf(`worker_processes 2; error_log stderr error; events { worker_connections 1024; }
http {
  access_log off; upstream tipcache { %s keepalive 16; }
  server { listen %s; location / { proxy_pass http://tipcache; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}`, servers, addr)
	}).Addr
}

// note prints a line with the time.
func (b *bed) note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "   %5.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// drive runs the clients, and after a pause do.
func (b *bed) drive(ctx context.Context, pause time.Duration, do func(context.Context)) {
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for _, r := range b.replicas {
		all.Go(func() { r.watch(asking) })
	}
	polling := clients.Polling{
		Clients: b.plan.clients, Keys: slices.Concat(b.keys, b.pages, b.unpinned), Pause: pollPause, Chain: b.chain, Server: b.balance, History: &b.history, Session: b.setup.pools, TLS: b.setup.tls,
	}
	all.Go(func() { polling.Run(asking) })
	if control := polling; b.ingress != "" {
		control.Clients, control.Session, control.Pause, control.History = 2, false, 20*time.Millisecond, &b.control
		all.Go(func() { control.Run(asking) })
	}
	if rig.Pause(ctx, pause) {
		do(ctx)
	}
}

// balance returns the address for the next request of a client: its own replica, or the next one that is ready. Every
// other client is behind a link, if there are links.
func (b *bed) balance(client int) string {
	if b.ingress != "" {
		return b.ingress
	}
	own := b.replicas[client%len(b.replicas)]
	for n := range b.replicas {
		if r := b.replicas[(client+n)%len(b.replicas)]; r.ready.Load() {
			own = r
			break
		}
	}
	return own.addrs[client/len(b.replicas)%len(own.addrs)]
}

// serving starts the servers behind the replicas, and returns how replicas are started.
func (b *bed) serving(ctx context.Context) (s rig.Serving) {
	s.Env = append([]string{"TIPCACHE_LOG_LEVEL=warn", "TIPCACHE_HTTP_DRAIN_DELAY=" + noticed.String()}, b.setup.env...)
	s.Flags = []string{"--shape", "node"}
	if b.setup.memory > 0 {
		s.Env = append(s.Env, fmt.Sprintf("TIPCACHE_CACHE_MEMORY=%dMiB", b.setup.memory))
	}
	if b.setup.tls {
		s.Cert = b.Certificate(ctx)
	}
	for i, n := range b.nodes {
		rest, comet := b.stoppable(ctx, n.RESTURL()), b.stoppable(ctx, n.CometURL())
		if i == 0 {
			s.Node, s.Comet = rest, comet
		} else {
			s.Flags = append(s.Flags, "--node", rest, "--comet", comet)
		}
		if b.setup.apis && n.GRPCAddr() != "" {
			s.Flags = append(s.Flags, "--grpc", n.GRPCAddr())
		}
	}
	if b.setup.links {
		s = b.behind(nodeLink, s)
	}
	if b.setup.redis != nil {
		s.Flags = append(s.Flags, "--redis", b.setup.redis(ctx, b))
	}
	if b.setup.links {
		s.Flags = append(s.Flags, "--store", b.startStore(ctx), "--collections-auth", "none")
	}
	return s
}

func oneRedis(ctx context.Context, b *bed) (url string) {
	b.redis = b.Redis(ctx)
	return b.reach(redisLink, b.redis.URL())
}

func sentinels(ctx context.Context, b *bed) (url string) {
	b.failover = b.Sentinel(ctx)
	return b.failover.URL
}

func cluster(ctx context.Context, b *bed) (url string) {
	b.failover = b.Cluster(ctx, "tipcache:2:{"+b.chain.ChainID()+"}")
	return b.failover.URL
}

// startStore imports collections into a PostgreSQL, and adds requests for pages.
func (b *bed) startStore(ctx context.Context) (url string) {
	server := b.Postgres(ctx)
	b.Import(ctx, b.Collections(b.chain.Collections()), server)
	b.pages = []string{`POST /api/v4/collections {"pagination":{"limit":5}}`, `POST /api/v4/collections {"orderBy":"assetCount","pagination":{"limit":10}}`}
	return b.reach(postgresLink, server)
}

// fork rolls the chain back by a number of blocks, after it has read them from the judge.
func (b *bed) fork(ctx context.Context, blocks int64) {
	b.chain.Halt()
	defer b.chain.Resume()
	rig.Pause(ctx, 200*time.Millisecond) // for a block in progress
	b.learn(ctx)
	b.chain.RollBack(blocks)
	from, before := b.chain.Height(), b.forks[len(b.forks)-1].From
	b.lowest = min(b.lowest, from)
	// Replicas detect the fork when the parent of a new block has another hash than they remember.
	holds := min(time.Duration(max(1, before-from))*blockTime, heldAfterFork)
	b.forks = append(b.forks, clients.Fork{Began: time.Now(), From: from, Holds: holds})
}

// heldAfterFork is a little less than the 10 s for which replicas do not believe a rollback without evidence.
const heldAfterFork = 8 * time.Second

// learn reads the responses of the judge for the newest fork.
func (b *bed) learn(ctx context.Context) {
	newest := len(b.forks) - 1
	var known *clients.Truth
	if newest > 0 {
		known = b.forks[newest-1].Truth
	}
	f := &b.forks[newest]
	f.Truth = rig.Must(clients.ReadTruth(ctx, b.judge.RESTURL(), b.keys, b.lowest-heightsBefore, b.chain.Height(), known, f.From))
}

// heightsBefore is how many blocks below the lowest height a response may be.
const heightsBefore = 10
