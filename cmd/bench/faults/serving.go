package faults

import (
	"context"
	"net/url"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// serving starts what the replicas stand before, and says how they are started.
func (b *bed) serving(ctx context.Context) (s rig.Serving, err error) {
	s.Env = append([]string{"TIPCACHE_LOG_LEVEL=warn", "TIPCACHE_HTTP_DRAIN_DELAY=" + noticed.String()}, b.setup.env...)
	s.Flags = []string{"--shape", "node"}
	var rest, comet []string
	for _, n := range b.nodes {
		for _, server := range []struct {
			url   string
			addrs *[]string
		}{{n.RESTURL(), &rest}, {n.CometURL(), &comet}} {
			addr, err := b.reach(nodeLink, rig.Host(server.url))
			if err != nil {
				return s, err
			}
			*server.addrs = append(*server.addrs, "http://"+addr)
		}
	}
	s.Node, s.Comet = rest[0], comet[0]
	for i := range rest[1:] {
		s.Flags = append(s.Flags, "--node", rest[i+1], "--comet", comet[i+1])
	}
	redis, err := b.startRedis(ctx)
	if err != nil {
		return s, err
	}
	store, err := b.startStore(ctx)
	s.Flags = append(append(s.Flags, redis...), store...)
	return s, err
}

// reach is the address of a server, through a link if there are any.
func (b *bed) reach(link, addr string) (string, error) {
	if !b.setup.links {
		return addr, nil
	}
	return b.through(link, addr)
}

func (b *bed) startRedis(ctx context.Context) (flags []string, err error) {
	switch b.setup.redis {
	case "":
		return nil, nil
	case sentinels:
		b.failover, err = b.Sentinel(ctx)
	case cluster:
		b.failover, err = b.Cluster(ctx, "tipcache:1:{"+b.chain.ChainID()+"}")
	default:
		if b.redis, err = b.Redis(ctx); err != nil {
			return nil, err
		}
		addr, err := b.reach(redisLink, b.redis.Addr)
		return []string{"--redis", "redis://" + addr}, err
	}
	if err != nil {
		return nil, err
	}
	return []string{"--redis", b.failover.URL}, nil
}

// startStore fills a PostgreSQL with collections, of which pages are asked for.
func (b *bed) startStore(ctx context.Context) (flags []string, err error) {
	if !b.setup.postgres {
		return nil, nil
	}
	server, err := b.Postgres(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.Import(ctx, b.chain, server); err != nil {
		return nil, err
	}
	through, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	if through.Host, err = b.reach(postgresLink, through.Host); err != nil {
		return nil, err
	}
	b.pages = []string{`POST /api/v4/collections {"pagination":{"limit":5}}`, `POST /api/v4/collections {"orderBy":"assetCount","pagination":{"limit":10}}`}
	return []string{"--store", through.String(), "--collections-auth", "none"}, nil
}

// fork sets the chain back by a number of blocks, once it is known what the node
// said of them.
func (b *bed) fork(ctx context.Context, blocks int64) error {
	b.chain.Halt()
	defer b.chain.Resume()
	rig.Pause(ctx, 200*time.Millisecond) // for the block that may be under way
	if err := b.learn(ctx); err != nil {
		return err
	}
	b.chain.SetBack(blocks)
	from, before := b.chain.Height(), b.forks[len(b.forks)-1].From
	b.lowest = min(b.lowest, from)
	b.forks = append(b.forks, clients.Fork{Began: time.Now(), From: from, Holds: b.holds(before - from)})
	return nil
}

// heldAfterFork is a little less than chain.rollback_after, until which no replica
// takes a chain for set back whose blocks it cannot tell.
const heldAfterFork = 8 * time.Second

// holds is for how long replicas keep what they have of a chain that was set back
// to a height so many blocks below the first they remember: they know the fork when
// a block follows one whose hash they remember otherwise, and drop everything.
func (b *bed) holds(below int64) time.Duration {
	return min(time.Duration(max(1, below)*int64(b.plan.blockTime)), heldAfterFork)
}

// learn asks the judge for all that it says of the newest fork.
func (b *bed) learn(ctx context.Context) (err error) {
	newest := len(b.forks) - 1
	var known *clients.Truth
	if newest > 0 {
		known = b.forks[newest-1].Truth
	}
	f := &b.forks[newest]
	f.Truth, err = clients.Learn(ctx, b.judge.RESTURL(), b.keys, b.lowest-heightsBefore, b.chain.Height(), known, f.From)
	return err
}

// heightsBefore is how many heights below the lowest an answer may be of.
const heightsBefore = 10

// model is what the answers are held against.
func (b *bed) model(ctx context.Context) (*clients.Model, error) {
	return &clients.Model{Forks: b.forks, Grace: freshWithin, Lost: b.lost, Any: b.unpinned}, b.learn(ctx)
}
