package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/tipcache/connect"
	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

const (
	sdkPool   = "/cosmos/staking/v1beta1/pool"
	storyPool = "/staking/pool"
)

// Until a node answers, only the admin listener is open, and says what the service waits for. A reload can name another node.
func TestClientsAreServedOnceANodeHasAnswered(t *testing.T) {
	t.Parallel()
	for dialect, path := range map[devnet.Dialect]string{devnet.Story: storyPool, devnet.Cosmos: sdkPool} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{Dialect: dialect, Interval: 50 * time.Millisecond})
			listen, admin := porttest.Address(t), porttest.Address(t)
			settings := func(node string) string {
				return fmt.Sprintf("listen: %q\nadmin: %q\nchain: {nodes: [%q], comet: [%q]}\nredis: {url: none}\ncollections: {auth: closed}\n", listen, admin, node, d.CometURL())
			}
			file := writeFile(t, "tipcache.yaml", settings("http://"+porttest.Address(t)))
			p := startProgram(t, nil, "serve", "--config", file)
			expect.EventuallyEqual(t, "the admin listener", func() int { return statusOf(t, "http://"+admin+"/healthz") }, http.StatusOK)
			expect.Eventually(t, "a readyz of 503 that names chain.dialect, once the node has been asked", func() bool {
				status, body := fetch(t, "http://"+admin+"/readyz")
				return status == http.StatusServiceUnavailable && strings.Contains(body, "chain.dialect")
			})
			if status, body := fetch(t, "http://"+admin+"/admin/explain?url="+path); status != http.StatusServiceUnavailable || !strings.Contains(body, "no node has answered") {
				t.Errorf("explain = %d %s, want 503 with the cause", status, body)
			}
			if conn, err := net.Dial("tcp", listen); err == nil {
				_ = conn.Close()
				t.Error("the client listener is open, want it closed")
			}
			expect.NoError(t, os.WriteFile(file, []byte(settings(d.NodeURL())), 0o600))
			expect.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
			expect.EventuallyEqual(t, "an answer of the node", func() int { return statusOf(t, "http://"+listen+path) }, http.StatusOK)
			expect.EventuallyEqual(t, "ready", func() int { return statusOf(t, "http://"+admin+"/readyz") }, http.StatusOK)
		})
	}
}

// statusOf returns the status of the response to a GET request, or 0 if there is no response.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestWaitForANodeEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := config.Default()
	cfg.Listen, cfg.Admin, cfg.Chain.Nodes, cfg.Collections.Auth = "127.0.0.1:0", "127.0.0.1:0", []string{"http://" + porttest.Address(t)}, "closed"
	ended := make(chan error, 1)
	go func() {
		_, err := service.New(ctx, cfg, parts.NewLogs(io.Discard, cfg.Log), service.Reloading{})
		ended <- err
	}()
	cancel()
	expect.ErrorIs(t, <-ended, context.Canceled, "New")
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
