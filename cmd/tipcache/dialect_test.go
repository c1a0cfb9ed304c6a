package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/tipcache/connect"
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

func TestReplicaWithoutNodeServesConfiguredDialectFromRedis(t *testing.T) {
	t.Parallel()
	shared := miniredis.RunT(t)
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 50 * time.Millisecond})
	sharing := func(cfg *config.Config) {
		cfg.Redis.URL, cfg.Chain.ID, cfg.Chain.Dialect = "redis://"+shared.Addr(), d.ChainID(), string(devnet.Cosmos)
	}
	first := startRunning(t, d, sharing)
	first.eventually("response in Redis", func() bool {
		return first.get(first.base+sdkPool).status == http.StatusOK && strings.Contains(strings.Join(shared.Keys(), " "), sdkPool)
	})
	expect.NoError(t, d.SetFaults(nodeDown))
	second := startUnready(t, d, sharing)
	second.eventually("response from Redis", func() bool { return second.get(second.base+sdkPool).status == http.StatusOK })
}

func TestRowThatClashesInDetectedDialectEndsStart(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	file := writeFile(t, "tipcache.yaml", strings.Replace(withNodes(d), "chain: {", "chain: {rows: ['pool /x/{id:uint64} live cheap'], ", 1))
	_, err := runCommand(t, "serve", "--config", file)
	expect.Contains(t, fmt.Sprint(err), "pool is the name of the built-in row of /staking/pool", "error of serve")
}

func TestSubscriptionsAreRefusedBeforeCometBFT038(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]bool{"0.37.15": true, "0.39.4": false} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos})
			comet := rewriting(t, d.CometURL(), func(_ string, body []byte) []byte {
				return bytes.ReplaceAll(body, []byte(`"version":"0.38.19"`), []byte(`"version":"`+version+`"`))
			})
			s := startRunning(t, d, func(c *config.Config) {
				c.RPC.Listen, c.Chain.Comet = "127.0.0.1:0", []string{comet}
			})
			conn, _, err := websocket.Dial(t.Context(), "ws://"+s.Addresses.RPC+"/websocket", nil)
			expect.NoError(t, err)
			defer func() { _ = conn.CloseNow() }()
			const call = `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlockHeader'"}}`
			expect.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(call)))
			_, got, err := conn.Read(t.Context())
			if text := gjson.GetBytes(got, "error.data").Str; err != nil || strings.Contains(text, "CometBFT 0.3") != refused {
				t.Errorf("subscribe = %s, %v; want refused %t", got, err, refused)
			}
			const upstream = "subscriptions to events"
			if refused {
				s.eventually("degraded subscriptions", func() bool { return strings.Contains(s.ready().Degraded[upstream], "0.38 or later") })
			} else if problem := s.ready().Degraded[upstream]; problem != "" {
				t.Errorf("degraded %s = %s, want none", upstream, problem)
			}
			if block := s.do(http.MethodPost, "http://"+s.Addresses.RPC, `{"id":1,"method":"block","params":{}}`); block.status != http.StatusOK || !gjson.Get(block.body, "result.block").Exists() {
				t.Errorf("block = %d %s, want 200 with a block", block.status, block.body)
			}
			var out bytes.Buffer
			cfg := config.Default()
			cfg.Chain.Nodes, cfg.Chain.Comet, cfg.Redis.URL, cfg.Collections.Store = []string{d.NodeURL()}, []string{comet}, "none", "none"
			_ = connect.Check(t.Context(), cfg, true, &out)
			if strings.Contains(out.String(), "subscriptions refused: CometBFT 0.3") != refused {
				t.Errorf("check prints %s; want refused %t", out.String(), refused)
			}
		})
	}
}

// metricSum returns the sum of a metric over the series with all these labels.
func (r *instance) metricSum(name string, labels ...string) float64 {
	r.t.Helper()
	return rig.ParseSamples(r.get(r.admin+"/metrics").body).Sum(name, labels...)
}
