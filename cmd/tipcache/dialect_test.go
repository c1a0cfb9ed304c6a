package main

import (
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

// away is a chain whose node refuses connections.
func away(t *testing.T, dialect devnet.Dialect) *devnet.Devnet {
	t.Helper()
	d := newDevnet(t, devnet.Options{Dialect: dialect, Interval: 50 * time.Millisecond})
	refuse := devnet.Fault{Outage: devnet.Refuse}
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: refuse, Comet: refuse}))
	return d
}

func TestDialectIsDetectedOnceNodeAnswers(t *testing.T) {
	t.Parallel()
	for dialect, path := range map[devnet.Dialect]string{devnet.Story: storyPool, devnet.Cosmos: sdkPool} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			d := away(t, dialect)
			r := startUnready(t, d, nil)
			for _, path := range []string{storyPool, sdkPool} {
				got := r.get(r.base + path)
				if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
					t.Errorf("%s before the node: %d %v %s", path, got.status, got.header, got.body)
				}
			}
			r.list(`{}`).wants(t, http.StatusOK)
			r.get(r.admin+"/readyz").wants(t, http.StatusServiceUnavailable, "dialect")
			expect.NoError(t, d.SetFaults(devnet.Faults{}))
			r.eventually("of the node", func() bool { return r.get(r.base+path).status == http.StatusOK })
			r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
			r.list(`{}`).wants(t, http.StatusOK)
			other := map[string]int{storyPool: http.StatusNotImplemented, sdkPool: http.StatusNotFound}
			delete(other, path)
			for path, status := range other {
				r.get(r.base+path).wants(t, status)
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
	first.eventually("in Redis", func() bool {
		return first.get(first.base+sdkPool).status == http.StatusOK && strings.Contains(strings.Join(shared.Keys(), " "), sdkPool)
	})
	refuse := devnet.Fault{Outage: devnet.Refuse}
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: refuse, Comet: refuse}))
	second := startUnready(t, d, sharing)
	second.eventually("answered from Redis", func() bool { return second.get(second.base+sdkPool).status == http.StatusOK })
}

// astray is a replica that starts while the node is away, and finds in Redis what is
// not so: that the chain speaks the dialect of Story.
func astray(t *testing.T, sealKey string) *running {
	t.Helper()
	shared, d := miniredis.RunT(t), away(t, devnet.Cosmos)
	expect.NoError(t, shared.Set("tipcache:1:dialect:{"+d.ChainID()+"}", "story"))
	return startUnready(t, d, func(cfg *config.Config) {
		cfg.Redis.URL, cfg.Redis.SealKey, cfg.Chain.ID = "redis://"+shared.Addr(), sealKey, d.ChainID()
	})
}

func TestUnsignedDialectInRedisIsIgnored(t *testing.T) {
	t.Parallel()
	r := astray(t, "known to the replicas alone")
	expect.NoError(t, r.devnet.SetFaults(devnet.Faults{}))
	r.eventually("of the node", func() bool { return r.get(r.base+sdkPool).status == http.StatusOK })
}

func TestReplicaWithWrongDialectFromRedisEndsOnceNodeAnswers(t *testing.T) {
	t.Parallel()
	r := astray(t, "")
	expect.NoError(t, r.devnet.SetFaults(devnet.Faults{}))
	select {
	case err := <-r.ended:
		r.ended <- nil
		if err == nil || !strings.Contains(err.Error(), "the nodes speak cosmos, not story") {
			t.Errorf("the service ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("service still runs with the wrong dialect")
	}
}
