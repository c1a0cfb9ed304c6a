package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// realRedis starts a Redis on a free port. toggle kills it or, if it is dead, starts it again on the same port.
func realRedis(t *testing.T) (address string, toggle func()) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("install redis-server to run this test: it must be on the PATH")
	}
	address = rig.FreeAddr()
	_, port, _ := net.SplitHostPort(address)
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = client.Close() })
	var cmd *exec.Cmd
	dir := t.TempDir()
	toggle = func() {
		if cmd != nil {
			_, _ = cmd.Process.Kill(), cmd.Wait()
			cmd = nil
			return
		}
		cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
		expect.NoError(t, cmd.Start())
		expect.Eventually(t, "response of the started Redis", func() bool {
			config, err := client.ConfigGet(t.Context(), "dir").Result()
			return err == nil && config["dir"] == dir
		})
	}
	toggle()
	t.Cleanup(func() {
		if cmd != nil {
			toggle()
		}
	})
	return address, toggle
}

func TestReplicasReadNodeOncePerBlockAndSurviveLossOfRedis(t *testing.T) {
	t.Parallel()
	address, toggle := realRedis(t)
	d := newDevnet(t, devnet.Options{Interval: 300 * time.Millisecond})
	shared := func(c *config.Config) { c.Redis.URL = "redis://" + address }
	a, b := startRunning(t, d, shared), startRunning(t, d, shared)
	poll := func(rounds int) {
		for range rounds {
			for _, r := range []*instance{a, b} {
				r.get(r.base+"/staking/pool").expectStatus(t, 200)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	poll(300)
	blocks := 0
	for _, read := range d.Node().Stats().ReadCounts {
		if read.URI == "/staking/pool" {
			blocks++
			if read.Count > 1 {
				t.Errorf("node requests at block %[2]d = %[1]d, want 1", read.Count, read.Height)
			}
		}
	}
	if blocks < 3 {
		t.Errorf("blocks read = %d, want more", blocks)
	}
	toggle()
	poll(100)
	toggle()
	a.eventually("Redis in use again", func() bool {
		poll(1) // the breaker closes after a request
		return strings.Contains(a.get(a.admin+"/readyz").body, `"redis":"ok"`)
	})
}
