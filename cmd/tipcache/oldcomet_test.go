package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/tipcache/connect"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

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
			conn, _, err := websocket.Dial(t.Context(), "ws://"+s.RPCAddr()+"/websocket", nil)
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
			if block := s.do(http.MethodPost, "http://"+s.RPCAddr(), `{"id":1,"method":"block","params":{}}`); block.status != http.StatusOK || !gjson.Get(block.body, "result.block").Exists() {
				t.Errorf("block = %d %s, want 200 with a block", block.status, block.body)
			}
			var out bytes.Buffer
			cfg := config.Default()
			cfg.Chain.Nodes, cfg.Chain.Comet, cfg.Redis.URL, cfg.Collections.Store = []string{d.NodeURL()}, []string{comet}, "none", "none"
			_ = connect.Check(t.Context(), cfg, &out)
			if strings.Contains(out.String(), "subscriptions refused: CometBFT 0.3") != refused {
				t.Errorf("check prints %s; want refused %t", out.String(), refused)
			}
		})
	}
}
