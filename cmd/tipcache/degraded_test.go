package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func host(url string) string { return strings.TrimPrefix(url, "http://") }

func TestFailingUpstreamIsListedAsDegraded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		faults   devnet.Faults
		upstream func(*devnet.Devnet) string
		readyz   string // part of the body
	}{
		"provider": {
			devnet.Faults{Provider: devnet.Fault{ErrorRate: 1, ErrorStatus: http.StatusTooManyRequests}},
			func(*devnet.Devnet) string { return "requests to metadata provider alchemy" },
			`"metadata":"rate_limited","metadata_error":"`,
		},
		"execution client": {
			devnet.Faults{EVM: devnet.Fault{Outage: devnet.Refuse}},
			func(d *devnet.Devnet) string { return "execution client " + host(d.EVMURL()) },
			`"metadata":"ok"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{})
			r := startRunning(t, d, func(c *config.Config) {
				indexing(d, sqliteURL(t))(c)
				c.Metadata.Budget = 1 // no page waits for the provider
			})
			r.get(r.base+storyPool).expectStatus(t, http.StatusOK)
			expect.NoError(t, d.SetFaults(tt.faults))
			upstream := tt.upstream(d)
			metric := func(value int) string {
				return fmt.Sprintf("tipcache_upstream_degraded{upstream=%q} %d\n", upstream, value)
			}
			r.eventually("degraded for "+upstream, func() bool {
				r.list(fmt.Sprintf(`{"pagination":{"limit":1,"offset":%d}}`, len(r.ready().Degraded)))
				return r.ready().Degraded[upstream] != ""
			})
			if got := r.get(r.admin + "/readyz"); got.status != http.StatusOK || len(r.ready().Degraded) != 1 {
				t.Errorf("/readyz = %d %s, want 200 with %s as the only degraded upstream", got.status, got.body, upstream)
			} else {
				expect.Contains(t, got.body, tt.readyz, "/readyz")
			}
			expect.Contains(t, r.get(r.admin+"/metrics").body, metric(1), "metrics")
			r.get(r.base+storyPool).expectStatus(t, http.StatusOK)
			expect.NoError(t, d.SetFaults(devnet.Faults{}))
			offset := 2
			r.eventually("no degraded upstream", func() bool {
				offset++
				r.list(fmt.Sprintf(`{"pagination":{"limit":1,"offset":%d}}`, offset%30))
				return len(r.ready().Degraded) == 0
			})
			expect.Contains(t, r.get(r.admin+"/metrics").body, metric(0), "metrics")
		})
	}
}

func TestNodesWithMixedPageKeysAreDegradedInNodeShape(t *testing.T) {
	t.Parallel()
	for shape, want := range map[story.Shape]bool{story.Node: true, story.Documented: false} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{})
			newer := devnettest.AddNode(t, d)
			newer.SetBase64Keys(true)
			r := startRunning(t, d, func(c *config.Config) {
				c.Chain.Shape = shape
				c.Chain.Nodes, c.Chain.Comet = append(c.Chain.Nodes, newer.RESTURL()), append(c.Chain.Comet, newer.CometURL())
			})
			forms := func() int {
				r.get(r.base + "/staking/validators?pagination.limit=3&pagination.key=%14key")
				known := 0
				for _, n := range r.ready().Nodes {
					if n.PageKeys != "" {
						known++
					}
				}
				return known
			}
			if want {
				r.eventually("degraded page keys", func() bool { return forms() == 2 && r.ready().Degraded["page keys"] != "" })
			} else if got := r.ready().Degraded; got["page keys"] != "" {
				t.Errorf("degraded = %v, want no page keys", got)
			}
		})
	}
}

func TestFailedIndexerIsDegraded(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	r := startRunning(t, d, func(c *config.Config) {
		indexing(d, sqliteURL(t))(c)
		c.Index.From = 0 // refused because the store has imported collections
	})
	r.eventually("degraded index", func() bool { return strings.Contains(r.ready().Degraded["index"], "imported collections") })
}

func TestConfiguredButUnusedRedisIsDegraded(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Faults: devnet.Faults{Comet: devnet.Fault{Outage: devnet.Refuse}}})
	unnamed := func(c *config.Config) { c.Redis.URL, c.Chain.ID = "redis://"+miniredis.RunT(t).Addr(), "" }
	r := startUnready(t, d, unnamed) // only the CometBFT of a Story node names the chain
	r.eventually("degraded Redis", func() bool { return strings.Contains(r.ready().Degraded["use of Redis"], "set chain.id") })
	r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	r.eventually("no degraded upstream once a node names the chain", func() bool { return len(r.ready().Degraded) == 0 })
}

func TestReplicaThatCannotServeAnythingIsNotReady(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Faults: nodeDown})
	p := startProgram(t, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dialect", "story", "--node", d.NodeURL(), "--comet", d.CometURL())
	admin := p.admin()
	eventually := func(wantStatus int, wantDegraded bool) {
		t.Helper()
		p.waitFor(fmt.Sprintf("/readyz with status %d and the node degraded: %t", wantStatus, wantDegraded), func() bool {
			status, body := fetch(t, admin+"/readyz")
			return status == wantStatus && wantDegraded == strings.Contains(body, `"node `+host(d.NodeURL())+`":"has been failing`)
		})
	}
	eventually(http.StatusServiceUnavailable, true)
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	eventually(http.StatusOK, false)
	expect.NoError(t, d.SetFaults(nodeDown))
	eventually(http.StatusOK, true)
	for _, part := range []string{"nodes", "store"} { // collections are closed
		if status, body := fetch(t, admin+"/readyz?require="+part); status != http.StatusServiceUnavailable || !strings.Contains(body, `\"`+part+`\" is not a configured part`) {
			t.Errorf("readyz?require=%s = %d %s, want 503 with the name", part, status, body)
		}
	}
	if status, body := fetch(t, admin+"/readyz?require=node"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz?require=node = %d %s, want 503", status, body)
	}
	status, _ := fetch(t, admin+"/healthz")
	expect.Equal(t, status, http.StatusOK, "status of /healthz")
}

func TestUnusedRedisIsReportedWithItsCause(t *testing.T) {
	t.Parallel()
	locked := miniredis.RunT(t)
	locked.RequireAuth("secret")
	start := func(url string, d *devnet.Devnet) *instance {
		r := startUnready(t, d, func(cfg *config.Config) { cfg.Redis.URL, cfg.Chain.ID = url, d.ChainID() })
		r.ready() // records the first failure, so that the time until the outage passes for all instances at once
		return r
	}
	for cause, r := range map[string]*instance{
		"WRONGPASS":          start("redis://:wrong@"+locked.Addr(), newDevnet(t, devnet.Options{})),
		"connection refused": start("redis://127.0.0.1:1", newDevnet(t, devnet.Options{})),
	} {
		r.eventually("degraded Redis because of "+cause, func() bool { return strings.Contains(r.ready().Degraded["use of Redis"], cause) })
	}
}

func TestIdleReplicaReportsChangedPasswordOfRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireAuth("old")
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: -1}), func(cfg *config.Config) { cfg.Redis.URL = "redis://:old@" + server.Addr() })
	expect.Equal(t, r.ready().Redis, "ok", "redis before the change")
	server.Close() // so that connections with the old password end
	server.RequireAuth("new")
	expect.NoError(t, server.Restart())
	r.eventually("failing Redis", func() bool {
		state := r.ready()
		return state.Redis == "failing" && strings.Contains(state.Degraded["Redis"], "WRONGPASS")
	})
	server.RequireAuth("old")
	r.eventually("working Redis", func() bool { state := r.ready(); return state.Redis == "ok" && state.Degraded["Redis"] == "" })
}
