package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

const (
	sdkPool   = "/cosmos/staking/v1beta1/pool"
	storyPool = "/staking/pool"
)

// startWithNodeDown starts a chain whose node refuses connections.
func startWithNodeDown(t *testing.T, dialect devnet.Dialect) *devnet.Devnet {
	t.Helper()
	d := newDevnet(t, devnet.Options{Dialect: dialect, Interval: 50 * time.Millisecond})
	expect.NoError(t, d.SetFaults(nodeDown))
	return d
}

func TestDialectIsDetectedOnceNodeAnswers(t *testing.T) {
	t.Parallel()
	for dialect, path := range map[devnet.Dialect]string{devnet.Story: storyPool, devnet.Cosmos: sdkPool} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			d := startWithNodeDown(t, dialect)
			r := startUnready(t, d, nil)
			for _, path := range []string{storyPool, sdkPool} {
				got := r.get(r.base + path)
				if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
					t.Errorf("%s before the node answers = %d %s, Retry-After %q; want 503 with Retry-After", path, got.status, got.body, got.header.Get("Retry-After"))
				}
			}
			r.list(`{}`).expectStatus(t, http.StatusOK)
			r.get(r.admin+"/readyz").expectStatus(t, http.StatusServiceUnavailable, "dialect")
			expect.NoError(t, d.SetFaults(devnet.Faults{}))
			r.eventually("response of the node", func() bool { return r.get(r.base+path).status == http.StatusOK })
			r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
			r.list(`{}`).expectStatus(t, http.StatusOK)
			other := map[string]int{storyPool: http.StatusNotImplemented, sdkPool: http.StatusNotFound}
			delete(other, path)
			for path, status := range other {
				r.get(r.base+path).expectStatus(t, status)
			}
		})
	}
}

func TestReplicaWithoutNodeUsesDialectFromRedis(t *testing.T) {
	t.Parallel()
	shared := miniredis.RunT(t)
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 50 * time.Millisecond})
	sharing := func(cfg *config.Config) {
		cfg.Redis.URL, cfg.Chain.ID = "redis://"+shared.Addr(), d.ChainID()
	}
	first := startRunning(t, d, sharing)
	first.eventually("response in Redis", func() bool {
		return first.get(first.base+sdkPool).status == http.StatusOK && strings.Contains(strings.Join(shared.Keys(), " "), sdkPool)
	})
	expect.NoError(t, d.SetFaults(nodeDown))
	second := startUnready(t, d, sharing)
	second.eventually("response from Redis", func() bool { return second.get(second.base+sdkPool).status == http.StatusOK })
}

// startWithWrongDialect starts a replica of a Cosmos chain whose node is down, and whose Redis says that the dialect is story.
func startWithWrongDialect(t *testing.T, sealKey string) *instance {
	t.Helper()
	shared, d := miniredis.RunT(t), startWithNodeDown(t, devnet.Cosmos)
	expect.NoError(t, shared.Set("tipcache:1:dialect:{"+d.ChainID()+"}", "story"))
	return startUnready(t, d, func(cfg *config.Config) {
		cfg.Redis.URL, cfg.Redis.SealKey, cfg.Chain.ID = "redis://"+shared.Addr(), sealKey, d.ChainID()
	})
}

func TestUnsignedDialectInRedisIsIgnored(t *testing.T) {
	t.Parallel()
	r := startWithWrongDialect(t, "known only to the replicas")
	expect.NoError(t, r.devnet.SetFaults(devnet.Faults{}))
	r.eventually("response of the node", func() bool { return r.get(r.base+sdkPool).status == http.StatusOK })
}

func TestReplicaWithWrongDialectFromRedisEndsOnceNodeAnswers(t *testing.T) {
	t.Parallel()
	r := startWithWrongDialect(t, "")
	expect.NoError(t, r.devnet.SetFaults(devnet.Faults{}))
	if err := r.waitForEnd(); err == nil || !strings.Contains(err.Error(), "the nodes speak cosmos, not story") {
		t.Errorf("Run = %v, want an error that names both dialects", err)
	}
}

func TestRowThatClashesInDetectedDialectEndsStart(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	file := writeFile(t, "tipcache.yaml", strings.Replace(withNodes(d), "chain: {", "chain: {rows: ['pool /x/{id:uint64} live cheap'], ", 1))
	_, err := runCommand(t, "serve", "--config", file)
	expect.Contains(t, fmt.Sprint(err), "pool is the name of the built-in row of /staking/pool", "error of serve")
}
