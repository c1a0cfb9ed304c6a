package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// testbed is the node, the Redis and the replicas of one run.
type testbed struct {
	dir      string
	devnet   *devnet.Devnet
	judge    *devnet.Node // the same chain, asked by this program alone
	redisCmd *exec.Cmd
	redis    *redis.Client
	replicas []*replica
}

func newTestbed(ctx context.Context, p plan) (*testbed, error) {
	dir, err := os.MkdirTemp("", "tipcache-drive-")
	if err != nil {
		return nil, err
	}
	b := &testbed{dir: dir}
	for _, step := range []func(context.Context, plan) error{b.startDevnet, b.startRedis, b.startReplicas} {
		if err := step(ctx, p); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

func (b *testbed) startDevnet(_ context.Context, p plan) (err error) {
	fault := devnet.Fault{Latency: p.nodeLatency}
	b.devnet, err = devnet.New(devnet.Options{Seed: 1, Interval: p.blockTime, Faults: devnet.Faults{Node: fault}})
	if err != nil {
		return err
	}
	if err := b.devnet.Start(); err != nil {
		return err
	}
	b.judge, err = b.devnet.AddNode(devnet.NodeOptions{})
	return err
}

func (b *testbed) startRedis(ctx context.Context, _ plan) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	b.redis = redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", port), MaxRetries: -1})
	return b.runRedis(ctx)
}

// runRedis starts Redis on the port of its client, also after it was killed.
func (b *testbed) runRedis(ctx context.Context) error {
	_, port, _ := net.SplitHostPort(b.redis.Options().Addr)
	b.redisCmd = exec.CommandContext(context.WithoutCancel(ctx), "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.dir)
	if err := b.redisCmd.Start(); err != nil {
		return fmt.Errorf("start redis-server (it must be installed): %w", err)
	}
	return eventually(ctx, func() error { return b.redis.Ping(ctx).Err() })
}

func (b *testbed) startReplicas(ctx context.Context, p plan) error {
	binary := filepath.Join(b.dir, "tipcache")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/tipcache/tipcache/cmd/tipcache")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build tipcache: %w\n%s", err, out)
	}
	for i := range p.replicas {
		r, err := b.newReplica(ctx, binary, i)
		if err != nil {
			return err
		}
		b.replicas = append(b.replicas, r)
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *testbed) close() {
	for _, r := range b.replicas {
		r.terminate()
	}
	for _, r := range b.replicas {
		_ = r.wait()
	}
	if b.redisCmd != nil {
		_ = b.redisCmd.Process.Kill()
		_ = b.redisCmd.Wait()
		_ = b.redis.Close()
	}
	if b.devnet != nil {
		_ = b.devnet.Close()
	}
	_ = os.RemoveAll(b.dir)
}

// usage is what the processes hold at one moment.
type usage struct {
	goroutines, residentMiB []int // by replica, -1 for one that is gone
	redisKeys, redisMiB     int
	redisCommands           int
}

func (b *testbed) usage(ctx context.Context) (usage, error) {
	var u usage
	for _, r := range b.replicas {
		text, err := get(ctx, r.admin+"/metrics")
		if err != nil {
			u.goroutines, u.residentMiB = append(u.goroutines, -1), append(u.residentMiB, -1)
			continue
		}
		u.goroutines = append(u.goroutines, int(number(text, `(?m)^go_goroutines (\S+)`)))
		u.residentMiB = append(u.residentMiB, int(number(text, `(?m)^process_resident_memory_bytes (\S+)`)/(1<<20)))
	}
	info, err := b.redis.Info(ctx).Result()
	if err != nil {
		return u, fmt.Errorf("ask Redis: %w", err)
	}
	u.redisKeys = int(number(info, `db0:keys=(\d+)`))
	u.redisMiB = int(number(info, `used_memory:(\d+)`) / (1 << 20))
	u.redisCommands = int(number(info, `total_commands_processed:(\d+)`))
	return u, nil
}

func number(text, pattern string) float64 {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	f, _ := strconv.ParseFloat(m[1], 64)
	return f
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port, l.Close()
}

func eventually(ctx context.Context, try func() error) (err error) {
	for range 200 {
		if err = try(); err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
