package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func redisPart() part {
	return part{
		name:  "redis",
		about: "a replica without memory before a full Redis, beside a bare Gin server that does one GET",
		needs: []tool{redisTool},
		run:   runRedis,
	}
}

const (
	redisKeys    = 20_000
	redisClients = 64
)

// redisRun is a Redis that one replica has filled. The same bytes are there
// under names as long as tipcache's own, for the bare server.
type redisRun struct {
	*bench
	devnet *devnetProc
	server *process
	client *redis.Client
	url    string
	paths  []string // what the replicas are asked
	names  []string // what the bare server is asked
	size   int      // of a body
}

// redisResult is of one run over all keys.
type redisResult struct {
	rate, p50, p99 float64 // per second, milliseconds
	cpu, redisCPU  float64 // seconds per 100,000 requests
}

func runRedis(ctx context.Context, b *bench) error {
	r := &redisRun{bench: b}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.client.Close()
	bare, err := b.bare(ctx, bareGin, nil, "-redis", r.client.Options().Addr)
	if err != nil {
		return err
	}
	var ours, theirs []redisResult
	for round := range b.rounds {
		for _, i := range rotated(2, round) {
			if i == 0 {
				ours, err = appendResult(ours)(r.cold(ctx))
			} else {
				theirs, err = appendResult(theirs)(r.load(ctx, bare.process, bare.url, r.names))
			}
			if err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "redis: round %d of %d done\n", round+1, b.rounds)
	}
	r.report(ours, theirs)
	return nil
}

func appendResult(all []redisResult) func(redisResult, error) ([]redisResult, error) {
	return func(one redisResult, err error) ([]redisResult, error) { return append(all, one), err }
}

// cold asks a replica that has just started for everything once: all of it has
// to come from Redis, and the node is not asked.
func (r *redisRun) cold(ctx context.Context) (redisResult, error) {
	t, err := r.bench.tipcache(ctx, r.devnet, "--redis", r.url)
	if err != nil {
		return redisResult{}, err
	}
	defer t.stop()
	if err := r.devnet.reset(ctx); err != nil {
		return redisResult{}, err
	}
	result, err := r.load(ctx, t.process, t.url, r.paths)
	if err != nil {
		return result, err
	}
	all, hits, err := t.cacheRequests(ctx, "shared")
	if err == nil && (all != hits || int(hits) != len(r.paths)) {
		err = fmt.Errorf("%.0f of %.0f answers came from Redis, want %d", hits, all, len(r.paths))
	}
	asked, statsErr := r.devnet.stats(ctx)
	for _, a := range asked.Node.Asked {
		if strings.Contains(a.URI, "/delegations") {
			err = fmt.Errorf("the node was asked for %s", a.URI)
		}
	}
	return result, errors.Join(err, statsErr)
}

// load asks for every path once.
func (r *redisRun) load(ctx context.Context, proc *process, url string, paths []string) (result redisResult, err error) {
	c := newCrowd(url, redisClients)
	defer c.close()
	if err := c.connect(ctx); err != nil {
		return result, err
	}
	before, err := r.usages(proc)
	if err != nil {
		return result, err
	}
	began := time.Now()
	answers := c.each(paths)
	took := time.Since(began)
	after, err := r.usages(proc)
	if err != nil {
		return result, err
	}
	var waits []float64
	for i, a := range answers {
		if a.err != nil || a.status != 200 {
			return result, fmt.Errorf("%s: status %d: %w", paths[i], a.status, a.err)
		}
		waits = append(waits, milliseconds(a.took))
	}
	per := 1e5 / float64(len(paths))
	return redisResult{
		rate: float64(len(paths)) / took.Seconds(), p50: median(waits), p99: quantile(waits, 0.99),
		cpu: per * (after[0].cpu - before[0].cpu).Seconds(), redisCPU: per * (after[1].cpu - before[1].cpu).Seconds(),
	}, ctx.Err()
}

// usages are the server's and Redis's.
func (r *redisRun) usages(proc *process) (u [2]usage, err error) {
	for i, p := range []*process{proc, r.server} {
		if u[i], err = p.usage(); err != nil {
			return u, err
		}
	}
	return u, nil
}
