package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidwall/gjson"
)

// prepare starts Redis and has one replica fill it.
func (r *redisRun) prepare(ctx context.Context) (err error) {
	if err := r.startRedis(ctx); err != nil {
		return err
	}
	if r.devnet, err = r.bench.devnet(ctx, still); err != nil {
		return err
	}
	if err := r.choosePaths(ctx); err != nil {
		return err
	}
	first, err := r.bench.tipcache(ctx, r.devnet, "--redis", r.url)
	if err != nil {
		return err
	}
	defer first.stop()
	if _, err := r.load(ctx, first.process, first.url, r.paths); err != nil {
		return fmt.Errorf("fill Redis: %w", err)
	}
	return r.copyBodies(ctx, first.url)
}

func (r *redisRun) startRedis(ctx context.Context) error {
	path, err := redisTool.path()
	if err != nil {
		return err
	}
	addr := freeAddr()
	r.url = "redis://" + addr
	r.server, err = r.start(ctx, "redis", path, "--port", port(addr), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir)
	if err != nil {
		return err
	}
	r.client = redis.NewClient(&redis.Options{Addr: addr})
	for range 100 {
		if err = r.client.Ping(ctx).Err(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%w%s", err, r.server.lastWords())
}

// choosePaths makes as many questions as there are keys of one whose answer is
// of ordinary size: the limits are beyond what the list has.
func (r *redisRun) choosePaths(ctx context.Context) error {
	list, err := get(ctx, r.devnet.rest+"/staking/validators?pagination.limit=2")
	if err != nil {
		return err
	}
	keys := redisKeys
	if r.short {
		keys = 2000
	}
	address := gjson.Get(list, "msg.validators.1.operator_address").String()
	for i := range keys {
		r.paths = append(r.paths, "/staking/validators/"+address+"/delegations?pagination.limit="+strconv.Itoa(10_000+i))
	}
	return nil
}

// copyBodies puts the bytes that the replica answers with under names of the
// length of the keys that it has made.
func (r *redisRun) copyBodies(ctx context.Context, url string) error {
	body, err := get(ctx, url+r.paths[0])
	if err != nil {
		return err
	}
	r.size = len(body)
	example, err := r.ownKey(ctx)
	if err != nil {
		return err
	}
	pipe := r.client.Pipeline()
	for i := range r.paths {
		number := strconv.Itoa(i)
		name := strings.Repeat("k", max(0, len(example)-len(number))) + number
		r.names = append(r.names, "/key/"+name)
		pipe.Set(ctx, name, body, 0)
	}
	_, err = pipe.Exec(ctx)
	return err
}

// ownKey is one that tipcache has made for a body.
func (r *redisRun) ownKey(ctx context.Context) (string, error) {
	keys, _, err := r.client.Scan(ctx, 0, "tipcache:*", 1000).Result()
	if err != nil {
		return "", err
	}
	longest := ""
	for _, k := range keys {
		if len(k) > len(longest) {
			longest = k
		}
	}
	if longest == "" {
		return "", errors.New("tipcache has put nothing into Redis")
	}
	return longest, nil
}

func (r *redisRun) report(ours, theirs []redisResult) {
	columns := []func(redisResult) float64{
		func(x redisResult) float64 { return x.rate }, func(x redisResult) float64 { return x.p50 },
		func(x redisResult) float64 { return x.p99 }, func(x redisResult) float64 { return x.cpu },
		func(x redisResult) float64 { return x.redisCPU },
	}
	rows := [][]string{{"tipcache"}, {"bare gin, one GET"}, {"ratio"}}
	for _, of := range columns {
		a, b := each(ours, of), each(theirs, of)
		rows[0] = append(rows[0], decimal(median(a)))
		rows[1] = append(rows[1], decimal(median(b)))
		rows[2] = append(rows[2], decimal(median(ratios(a, b))))
	}
	r.out.table(fmt.Sprintf("redis: memory cold, %d keys of %d bytes asked once each by %d clients", len(r.paths), r.size, redisClients),
		[]string{"server", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "Redis's CPU s/100k"}, rows)
	r.out.note("The clients are this program's own; medians of %d rounds, each with a replica that has just started.", r.rounds)
}

func each[A any](xs []A, of func(A) float64) []float64 {
	var ys []float64
	for _, x := range xs {
		ys = append(ys, of(x))
	}
	return ys
}
