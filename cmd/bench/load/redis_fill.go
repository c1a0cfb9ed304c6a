package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

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
	length, err := r.keyLength(ctx)
	if err != nil {
		return err
	}
	pipe := r.redis.Pipeline()
	for i := range r.paths {
		number := strconv.Itoa(i)
		name := strings.Repeat("k", max(0, length-len(number))) + number
		r.names = append(r.names, "/key/"+name)
		pipe.Set(ctx, name, body, 0)
	}
	_, err = pipe.Exec(ctx)
	return err
}

// keyLength is that of a key that tipcache has made for a body.
func (r *redisRun) keyLength(ctx context.Context) (longest int, err error) {
	keys, _, err := r.redis.Scan(ctx, 0, "tipcache:*", 1000).Result()
	for _, k := range keys {
		longest = max(longest, len(k))
	}
	if err == nil && longest == 0 {
		err = errors.New("tipcache has put nothing into Redis")
	}
	return longest, err
}

func (r *redisRun) report(ours, theirs []redisResult) {
	columns := []func(redisResult) float64{
		func(x redisResult) float64 { return x.rate }, func(x redisResult) float64 { return x.p50 },
		func(x redisResult) float64 { return x.p99 }, func(x redisResult) float64 { return x.cpu },
		func(x redisResult) float64 { return x.redisCPU },
	}
	rows := [][]string{{"tipcache"}, {"bare gin, one GET"}, {"ratio"}}
	for _, of := range columns {
		a, b := figures.Each(ours, of), figures.Each(theirs, of)
		for i, x := range [][]float64{a, b, figures.Ratios(a, b)} {
			rows[i] = append(rows[i], figures.Decimal(figures.Median(x)))
		}
	}
	r.Table(fmt.Sprintf("redis: memory cold, %d keys of %d bytes asked once each by %d clients", len(r.paths), r.size, redisClients),
		[]string{"server", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "Redis's CPU s/100k"}, rows)
	r.Note("The clients are this program's own; medians of %d rounds, each with a replica that has just started.", r.Rounds)
}
