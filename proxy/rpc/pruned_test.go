package rpc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// prunedErrors are the texts of CometBFT for block 5 after it was pruned, by method.
var prunedErrors = map[string]string{
	"block":            "height 5 is not available, lowest height is 500",
	"header":           "height 5 is not available, lowest height is 500",
	"commit":           "height 5 is not available, lowest height is 500",
	"block_results":    "could not find results for height #5",
	"validators":       "could not find validator set for height #5",
	"consensus_params": "could not find consensus params for height #5",
}

func TestPrunedBlockGetsErrorOfNode(t *testing.T) {
	one, other := newRecordedNode(t), newRecordedNode(t)
	for method, text := range prunedErrors {
		for _, n := range []*recordedNode{one, other} {
			n.setAnswer(method+`{"height":"5"}`, `"error":{"code":-32603,"message":"Internal error","data":"`+text+`"}`)
		}
	}
	for name, nodes := range map[string][]*recordedNode{"one node": {one}, "two nodes": {one, other}} {
		t.Run(name, func(t *testing.T) {
			o := node.Options{Settings: node.Settings{InFlight: 20, Timeout: time.Minute}, Queue: time.Minute, Registerer: prometheus.NewRegistry()}
			for _, n := range nodes {
				o.Endpoints = append(o.Endpoints, node.Endpoint{REST: n.rest.URL, Comet: n.rpc.URL})
			}
			pool, metrics := nodetest.Run(t, o, 746), prometheus.NewRegistry()
			for _, c := range pool.CometBFT() {
				expect.Eventually(t, "a node that can be read", c.Fit)
			}
			c := expect.Value(cache.New(cache.Options{}))(t)
			t.Cleanup(func() { _ = c.Close() })
			server := newHandlerOf(t, pool, metrics, c, rpc.Options{})
			for method, text := range prunedErrors {
				member := `"error":{"code":-32603,"message":"Internal error","data":"` + text + `"}`
				call := `{"id":7,"method":"` + method + `","params":{"height":"5"}}`
				resp, body := get(t, server.URL+"/"+method+"?height=5")
				expect.Response(t, "a URI of "+method, resp.StatusCode, body, http.StatusInternalServerError, `{"jsonrpc":"2.0","id":-1,`+member+"}")
				expect.Equal(t, resp.Header.Get("Cache-Control"), "no-store", "Cache-Control of %s", method)
				resp, body = post(t, server.URL, call)
				expect.Response(t, "a POST of "+method, resp.StatusCode, body, http.StatusOK, `{"jsonrpc":"2.0","id":7,`+member+"}")
				_, body = post(t, server.URL, fmt.Sprintf(`[%s,{"id":8,"method":"health","params":{}}]`, call))
				expect.Contains(t, body, `{"jsonrpc":"2.0","id":7,`+member+"},", "batch with %s", method)
				a := server.Config.Handler.(*rpc.Handler).Call(httptest.NewRequest(http.MethodGet, "/websocket", nil), method, json.RawMessage(`{"height":"5"}`))
				expect.Equal(t, string(a.Member), member, "%s over a socket", method)
			}
			server.Close() // waits until the requests are counted
			expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "server"), 0, "requests counted as failures of the server")
			read := one.countCalls("block{") + other.countCalls("block{")
			if one.order, other.order = nil, nil; read != len(nodes) {
				t.Errorf("node requests for a pruned block = %d, want %d", read, len(nodes))
			}
		})
	}
}
