package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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

// redisResult is of one run over all keys: requests per second, the p50 and the p99 in
// milliseconds, and the CPU seconds of the server and of Redis per 100,000 requests.
type redisResult [5]float64

// Redis measures hits in the shared store.
func Redis(ctx context.Context, b *rig.Rig) error {
	r := &redisRun{Rig: b}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	server, url, err := startBareServer(ctx, b, nil, r.redis.Addr, "")
	if err != nil {
		return err
	}
	var ours, theirs []redisResult
	err = r.Interleave("redis", 2, func(i int) error {
		if i == 1 {
			result, err := r.load(ctx, server, url, r.names)
			theirs = append(theirs, result)
			return err
		}
		result, err := r.cold(ctx)
		ours = append(ours, result)
		return err
	})
	if err == nil {
		r.report(ours, theirs)
	}
	return err
}

func (r *redisRun) replica(ctx context.Context) (*rig.Replica, error) {
	return r.Replica(ctx, rig.Before(r.chain, "--redis", r.redis.URL()))
}

// cold asks a replica that has just started for everything once: all of it has
// to come from Redis, and the node is not asked.
func (r *redisRun) cold(ctx context.Context) (redisResult, error) {
	if err := r.forgetHot(ctx); err != nil {
		return redisResult{}, err
	}
	t, err := r.replica(ctx)
	if err != nil {
		return redisResult{}, err
	}
	defer t.Stop()
	r.chain.ResetStats()
	result, err := r.load(ctx, t.Process, t.URL, r.paths)
	if err != nil {
		return result, err
	}
	all, _, hits, err := t.CacheRequests(ctx)
	if err == nil && (all != hits || int(hits) != len(r.paths)) {
		err = fmt.Errorf("%.0f of %.0f answers came from Redis, want %d", hits, all, len(r.paths))
	}
	for _, a := range r.chain.Stats().Node.Asked {
		if strings.Contains(a.URI, "/delegations") {
			err = errors.Join(err, fmt.Errorf("the node was asked for %s", a.URI))
		}
	}
	return result, err
}

// forgetHot keeps a replica from beginning with what others use most.
func (r *redisRun) forgetHot(ctx context.Context) error {
	keys, err := r.redis.Keys(ctx, "tipcache:1:hot:*").Result()
	if err != nil || len(keys) == 0 {
		return err
	}
	return r.redis.Del(ctx, keys...).Err()
}

// load asks for every path once.
func (r *redisRun) load(ctx context.Context, proc *rig.Process, url string, paths []string) (result redisResult, err error) {
	c := clients.NewCrowd(rig.Host(url), redisClients)
	defer c.Close()
	for _, m := range c {
		if err := m.Open(ctx); err != nil {
			return result, err
		}
	}
	requests := make(chan []byte, len(paths))
	for _, path := range paths {
		requests <- clients.Request(http.MethodGet, path, "")
	}
	close(requests)
	var waits []float64
	took := 0.0
	spent, err := rig.Spent(func() error {
		began := time.Now()
		err := c.Ask(ctx, func(int) ([]byte, bool) { request, ok := <-requests; return request, ok },
			func(a clients.Response) error { waits = append(waits, figures.Milliseconds(a.Took)); return nil })
		took = time.Since(began).Seconds()
		return err
	}, proc, r.redis.Process)
	if err != nil {
		return result, err
	}
	n := float64(len(paths))
	return redisResult{n / took, figures.Median(waits), figures.Quantile(waits, 0.99), spent[0].Seconds() * 1e5 / n, spent[1].Seconds() * 1e5 / n}, nil
}

// prepare starts Redis and has one replica fill it.
func (r *redisRun) prepare(ctx context.Context) (err error) {
	if r.redis, err = r.Redis(ctx); err != nil {
		return err
	}
	if r.chain, err = r.Chain(rig.Still); err != nil {
		return err
	}
	keys := redisKeys
	if r.Short {
		keys = 2000
	}
	for i := range keys { // limits beyond what the list has
		r.paths = append(r.paths, fmt.Sprintf("/staking/validators/%s/delegations?pagination.limit=%d", r.chain.Validators()[1], 10_000+i))
	}
	first, err := r.replica(ctx)
	if err != nil {
		return err
	}
	defer first.Stop()
	if _, err := r.load(ctx, first.Process, first.URL, r.paths); err != nil {
		return fmt.Errorf("fill Redis: %w", err)
	}
	return r.copyBodies(ctx, first.URL)
}

// copyBodies puts the bytes that the replica answers with under names of the
// length of the keys that it has made.
func (r *redisRun) copyBodies(ctx context.Context, url string) error {
	body, err := rig.Get(ctx, url+r.paths[0])
	if err != nil {
		return err
	}
	r.size = len(body)
	keys, _, err := r.redis.Scan(ctx, 0, "tipcache:*", 1000).Result()
	if err != nil || len(keys) == 0 {
		return errors.Join(errors.New("tipcache has put nothing into Redis"), err)
	}
	longest := slices.MaxFunc(keys, func(a, b string) int { return len(a) - len(b) })
	pipe := r.redis.Pipeline()
	for i := range r.paths {
		name := fmt.Sprintf("%0*d", len(longest), i)
		r.names = append(r.names, "/key/"+name)
		pipe.Set(ctx, name, body, 0)
	}
	_, err = pipe.Exec(ctx)
	return err
}

func (r *redisRun) report(ours, theirs []redisResult) {
	rows := [][]string{{"tipcache"}, {"bare gin, one GET"}, {"ratio"}}
	for column := range len(redisResult{}) {
		of := func(x redisResult) float64 { return x[column] }
		a, b := figures.Each(ours, of), figures.Each(theirs, of)
		for i, x := range [][]float64{a, b, figures.Ratios(a, b)} {
			rows[i] = append(rows[i], figures.Decimal(figures.Median(x)))
		}
	}
	r.Table(fmt.Sprintf("redis: memory cold, %d keys of %d bytes asked once each by %d clients", len(r.paths), r.size, redisClients),
		[]string{"server", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "Redis's CPU s/100k"}, rows)
	r.Note("The clients are this program's own; medians of %d rounds, each with a replica that has just started.", r.Rounds)
}
