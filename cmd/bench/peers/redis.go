package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	redisKeys    = 20_000
	redisClients = 64
)

// redisRun is a Redis that one replica has filled. The same bytes are there
// under names as long as tipcache's own, for the bare server.
type redisRun struct {
	*rig.Rig
	chain *devnet.Devnet
	redis *rig.Redis
	paths []string // what the replicas are asked
	names []string // what the bare server is asked
	size  int      // of a body
}

// Redis measures hits in the shared store.
func Redis(ctx context.Context, b *rig.Rig) {
	r := &redisRun{Rig: b}
	r.prepare(ctx)
	server, url := startBareServer(ctx, b, nil, r.redis.Addr, "")
	var all [2][]served
	r.Interleave("redis", 2, func(i int) {
		if i == 0 {
			all[i] = append(all[i], r.cold(ctx))
		} else {
			all[i] = append(all[i], r.load(ctx, server, url, r.names))
		}
	})
	rows := [][]string{{"tipcache"}, {"bare gin, one GET"}, {"ratio"}}
	for of := range all[0][0] {
		ours, theirs := column(all[0], of), column(all[1], of)
		for i, x := range [][]float64{ours, theirs, figures.Ratios(ours, theirs)} {
			rows[i] = append(rows[i], figures.Decimal(figures.Median(x)))
		}
	}
	r.Table(fmt.Sprintf("redis: memory cold, %d keys of %d bytes asked once each by %d clients", len(r.paths), r.size, redisClients),
		[]string{"server", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "Redis's CPU s/100k"}, rows)
	r.Note("The clients are this program's own; medians of %d rounds, each with a replica that has just started.", r.Rounds)
}

func (r *redisRun) replica(ctx context.Context) *rig.Replica {
	return r.Replica(ctx, rig.Before(r.chain, "--redis", r.redis.URL()))
}

// cold asks a replica that has just started, and has not begun with what others use most, for
// everything once: all of it has to come from Redis, and the node is not asked.
func (r *redisRun) cold(ctx context.Context) served {
	for _, hot := range rig.Must(r.redis.Keys(ctx, "tipcache:1:hot:*").Result()) {
		rig.Check(r.redis.Del(ctx, hot).Err())
	}
	t := r.replica(ctx)
	defer t.Stop()
	r.chain.ResetStats()
	result := r.load(ctx, t.Process, t.URL, r.paths)
	if all, _, hits := t.CacheRequests(ctx); all != hits || int(hits) != len(r.paths) {
		rig.Check(fmt.Errorf("%.0f of %.0f answers came from Redis, want %d", hits, all, len(r.paths)))
	}
	for _, a := range r.chain.Stats().Node.Asked {
		if strings.Contains(a.URI, "/delegations") {
			rig.Check(fmt.Errorf("the node was asked for %s", a.URI))
		}
	}
	return result
}

// load asks for every path once.
func (r *redisRun) load(ctx context.Context, process *rig.Process, url string, paths []string) served {
	c := clients.NewCrowd(rig.Host(url), redisClients)
	defer c.Close()
	for _, m := range c {
		rig.Check(m.Open(ctx))
	}
	requests := make([][]byte, len(paths))
	for i, path := range paths {
		requests[i] = clients.Request(http.MethodGet, path, "")
	}
	return serve(ctx, c, requests, process, r.redis.Process)
}

// prepare starts Redis, has one replica fill it, and puts the bytes that it answers with under
// names of the length of the keys that it has made.
func (r *redisRun) prepare(ctx context.Context) {
	r.redis, r.chain = r.Redis(ctx), r.Chain(rig.Still)
	keys := redisKeys
	if r.Short {
		keys = 2000
	}
	for i := range keys { // limits beyond what the list has
		r.paths = append(r.paths, fmt.Sprintf("/staking/validators/%s/delegations?pagination.limit=%d", r.chain.Validators()[1], 10_000+i))
	}
	first := r.replica(ctx)
	defer first.Stop()
	r.load(ctx, first.Process, first.URL, r.paths)
	body := rig.Must(rig.Get(ctx, first.URL+r.paths[0]))
	r.size = len(body)
	made, _, err := r.redis.Scan(ctx, 0, "tipcache:*", 1000).Result()
	if err != nil || len(made) == 0 {
		rig.Check(errors.Join(errors.New("tipcache has put nothing into Redis"), err))
	}
	longest := slices.MaxFunc(made, func(a, b string) int { return len(a) - len(b) })
	pipe := r.redis.Pipeline()
	for i := range r.paths {
		name := fmt.Sprintf("%0*d", len(longest), i)
		r.names = append(r.names, "/key/"+name)
		pipe.Set(ctx, name, body, 0)
	}
	_ = rig.Must(pipe.Exec(ctx))
}
