package faults

import (
	"context"
	"net/url"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// serving starts what the replicas stand before, and says how they are started.
func (b *bed) serving(ctx context.Context) (s rig.Serving) {
	s.Env = append([]string{"TIPCACHE_LOG_LEVEL=warn", "TIPCACHE_HTTP_DRAIN_DELAY=" + noticed.String()}, b.setup.env...)
	s.Program, s.Flags = b.program, append([]string{"--shape", "node"}, b.setup.flags...)
	if b.setup.smallMemory {
		s.Env = append(s.Env, b.plan.memoryEnv())
	}
	for i, n := range b.nodes {
		rest, comet := b.reachNode(ctx, n.RESTURL()), b.reachNode(ctx, n.CometURL())
		if i == 0 {
			s.Node, s.Comet = rest, comet
		} else {
			s.Flags = append(s.Flags, "--node", rest, "--comet", comet)
		}
	}
	if b.setup.redis != nil {
		s.Flags = append(s.Flags, "--redis", b.setup.redis(ctx, b))
	}
	if b.setup.links {
		s.Flags = append(s.Flags, "--store", b.startStore(ctx), "--collections-auth", "none")
	}
	return s
}

// reachNode is the URL of a node's server, through what can fail between.
func (b *bed) reachNode(ctx context.Context, server string) string {
	if b.setup.stops {
		p, addr := b.Relay(ctx, rig.Host(server))
		b.relays, server = append(b.relays, p), "http://"+addr
	}
	return b.reach(nodeLink, server)
}

// reach is the URL of a server, through a link if there are any.
func (b *bed) reach(link, server string) string {
	if !b.setup.links {
		return server
	}
	through := rig.Must(url.Parse(server))
	through.Host = b.through(link, through.Host)
	return through.String()
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
	b.failover = b.Cluster(ctx, "tipcache:1:{"+b.chain.ChainID()+"}")
	return b.failover.URL
}

// startStore fills a PostgreSQL with collections, of which pages are asked for.
func (b *bed) startStore(ctx context.Context) (url string) {
	server := b.Postgres(ctx)
	b.Import(ctx, b.chain, server)
	b.pages = []string{`POST /api/v4/collections {"pagination":{"limit":5}}`, `POST /api/v4/collections {"orderBy":"assetCount","pagination":{"limit":10}}`}
	return b.reach(postgresLink, server)
}

// fork sets the chain back by a number of blocks, once it is known what the node
// said of them.
func (b *bed) fork(ctx context.Context, blocks int64) {
	b.chain.Halt()
	defer b.chain.Resume()
	rig.Pause(ctx, 200*time.Millisecond) // for the block that may be under way
	b.learn(ctx)
	b.chain.SetBack(blocks)
	from, before := b.chain.Height(), b.forks[len(b.forks)-1].From
	b.lowest = min(b.lowest, from)
	b.forks = append(b.forks, clients.Fork{Began: time.Now(), From: from, Holds: b.holds(before - from)})
}

// heldAfterFork is a little less than the 10 s until which no replica
// takes a chain for set back whose blocks it cannot tell.
const heldAfterFork = 8 * time.Second

// holds is for how long replicas keep what they have of a chain that was set back
// to a height so many blocks below the first they remember: they know the fork when
// a block follows one whose hash they remember otherwise, and drop everything.
func (b *bed) holds(below int64) time.Duration {
	return min(time.Duration(max(1, below)*int64(blockTime)), heldAfterFork)
}

// learn asks the judge for all that it says of the newest fork.
func (b *bed) learn(ctx context.Context) {
	newest := len(b.forks) - 1
	var known *clients.Truth
	if newest > 0 {
		known = b.forks[newest-1].Truth
	}
	f := &b.forks[newest]
	f.Truth = rig.Must(clients.Learn(ctx, b.judge.RESTURL(), b.keys, b.lowest-heightsBefore, b.chain.Height(), known, f.From))
}

// heightsBefore is how many heights below the lowest an answer may be of.
const heightsBefore = 10

// model is what the answers are held against.
func (b *bed) model(ctx context.Context) *clients.Model {
	b.learn(ctx)
	return &clients.Model{Forks: b.forks, Grace: freshWithin, Lost: b.lost, Any: b.unpinned}
}
