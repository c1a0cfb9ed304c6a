package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	redisKeys    = 20_000
	redisClients = 64
)

// redisRun is a Redis that one replica has filled. For the bare server it holds the same bodies under names of the same
// length as tipcache's keys.
type redisRun struct {
	*rig.Rig
	chain *devnet.Devnet
	redis *rig.Redis
	paths []string // requested from the replicas
	names []string // requested from the bare server
}

// Redis measures hits in the shared Redis.
func Redis(ctx context.Context, b *rig.Rig) {
	r := &redisRun{Rig: b, redis: b.Redis(ctx), chain: b.Chain(rig.Still)}
	for i := range rig.Sized(b, redisKeys, 2000) { // limits above the length of the list
		r.paths = append(r.paths, fmt.Sprintf("/staking/validators/%s/delegations?pagination.limit=%d", r.chain.Validators()[1], 10_000+i))
	}
	first := r.replica(ctx)
	_ = once(ctx, first.Process, first.URL, redisClients, r.paths)
	size := r.copyTo(ctx, rig.Must(rig.Get(ctx, first.URL+r.paths[0])))
	first.Stop()
	servers := []*peer{{Process: first.Process, name: tipcacheName, urls: map[offer]string{plain: first.URL}}, startBare(ctx, b, r.redis.Addr, "")}
	rows := compare(ctx, b, []int{redisClients}, servers, []subject{{"redis", plain, func(ctx context.Context, s *peer, _ int) result {
		if s.name == tipcacheName {
			return r.cold(ctx)
		}
		return once(ctx, s.Process, s.urls[plain], redisClients, r.names)
	}}})
	report(b, fmt.Sprintf("redis: memory cold, %d keys of %d bytes asked once each", len(r.paths), size), rows)
}

func (r *redisRun) replica(ctx context.Context) *rig.Replica {
	return r.Replica(ctx, rig.Before(r.chain, "--redis", r.redis.URL()))
}

// cold requests everything once from a replica that has just started. All of it must come from Redis, without reads of
// the node.
func (r *redisRun) cold(ctx context.Context) result {
	t := r.replica(ctx)
	defer t.Stop()
	asked := r.chain.Stats().Node.Of("/staking/validators/")
	came := once(ctx, t.Process, t.URL, redisClients, r.paths)
	if all, _, hits := t.CacheRequests(ctx); all != hits || int(hits) != len(r.paths) {
		rig.Check(fmt.Errorf("%.0f of %.0f answers came from Redis, want %d", hits, all, len(r.paths)))
	}
	if n := r.chain.Stats().Node.Of("/staking/validators/") - asked; n > 0 {
		rig.Check(fmt.Errorf("the node was read for %d answers, want 0", n))
	}
	return came
}

// copyTo stores a body under names as long as tipcache's keys, and returns its size.
func (r *redisRun) copyTo(ctx context.Context, body string) int {
	made, _, err := r.redis.Scan(ctx, 0, "tipcache:*", 1000).Result()
	if err != nil || len(made) == 0 {
		rig.Check(errors.Join(errors.New("tipcache has written nothing to Redis"), err))
	}
	longest := slices.MaxFunc(made, func(a, b string) int { return len(a) - len(b) })
	pipe := r.redis.Pipeline()
	for i := range r.paths {
		name := fmt.Sprintf("%0*d", len(longest), i)
		r.names = append(r.names, "/key/"+name)
		pipe.Set(ctx, name, body, 0)
	}
	_ = rig.Must(pipe.Exec(ctx))
	return len(body)
}

// renewalsClients is the number of clients of each replica.
const renewalsClients = 64

// A renewalCase says how many replicas share a Redis, how many keys each of them serves, each twice per block on
// average, and whether each block changes the bodies.
type renewalCase struct {
	bodies         string
	still          bool
	replicas, keys int
}

func (c renewalCase) String() string {
	return fmt.Sprintf("%s, %d replicas, %d keys", c.bodies, c.replicas, c.keys)
}

var renewalCases = []renewalCase{
	{"unchanged", true, 3, 500}, {"unchanged", true, 5, 500}, {"unchanged", true, 3, 2000},
	{"changed, 1 KB", false, 3, 500}, {"changed, 1 KB", false, 5, 500}, {"changed, 1 KB", false, 3, 2000},
}

// Renewals measures the load on a Redis whose replicas each serve all keys at each block.
func Renewals(ctx context.Context, r *rig.Rig) {
	cases := rig.Sized(r, rig.CasesOf(r, renewalCases), []renewalCase{{"changed, 1 KB", false, 2, 500}})
	var rows [][]string
	for _, c := range cases {
		rows = append(rows, c.measure(ctx, r))
		r.Progress("renewals: %v", c)
	}
	r.Table(fmt.Sprintf("renewals: each key is requested twice per block (%v) from each replica", keysBlock),
		[]string{"bodies", "replicas", "keys", "Redis's CPU µs per key and block"}, rows)
}

// measure runs the replicas for some blocks, after a warm-up.
func (c renewalCase) measure(ctx context.Context, r *rig.Rig) []string {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: keysBlock})
	node, redis := startBusyNode(r, chain, busyLatency), r.Redis(ctx)
	node.still = c.still
	defer redis.Stop()
	keys := keysCase{keys: c.keys, rate: 2 * c.keys * int(time.Second) / int(keysBlock)}
	runs := make([]*keysRun, c.replicas)
	for i := range runs {
		t := r.Replica(ctx, rig.Serving{Node: node.url, Comet: chain.CometURL(), Flags: []string{"--shape", "node", "--redis", redis.URL()}})
		defer t.Stop()
		runs[i] = &keysRun{keysCase: keys, chain: chain, addr: rig.Host(t.URL), clients: renewalsClients}
	}
	spent := sustain(ctx, r, node, redis.Process, 3, 10, runs...)
	for _, run := range runs {
		if answered := len(run.took); answered == 0 || 100*run.failed > answered {
			rig.Check(fmt.Errorf("%v: %d requests answered, %d failed, such as %w", c, answered, run.failed, run.failure))
		}
	}
	pairs, _, _ := node.reads(small)
	return figures.Row(c.bodies, c.replicas, c.keys, 1e6*spent.Seconds()/float64(pairs))
}
