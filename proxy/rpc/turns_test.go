package rpc_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// waitForQueue waits until a number of requests wait for the node.
func waitForQueue(t testing.TB, metrics *prometheus.Registry, want float64) {
	t.Helper()
	expect.EventuallyEqual(t, fmt.Sprintf("%v waiting requests", want), func() float64 { return expect.Metric(t, metrics, "tipcache_node_queue_length") }, want)
}

func TestSearchesOfOneClientDelayNeitherReadsNorOtherClients(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	n.searches = make(chan struct{})
	answer := sync.OnceFunc(func() { close(n.searches) })
	defer answer()
	const scan = "/cosmos.tx.v1beta1.Service/GetTxsEvent"
	server, metrics := newHandler(t, n, rpc.Options{State: state.Options{Rows: map[string]dialect.Row{scan: {Cost: node.Scan}}}})
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	defer other.CloseIdleConnections()
	var clients sync.WaitGroup
	search := func(by *http.Client, method, param, value string) {
		clients.Go(func() {
			resp, err := by.Post(server.URL, "application/json", strings.NewReader(fmt.Sprintf(`{"id":1,"method":%q,"params":{%q:%q}}`, method, param, value)))
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	const all = 20
	for i := range all - 1 {
		search(other, "block_search", "query", fmt.Sprintf("block.height > %d", i))
	}
	waitForQueue(t, metrics, all-2) // one is at the node
	search(other, "abci_query", "path", scan)
	waitForQueue(t, metrics, all-1)
	for i := range 5 {
		call := fmt.Sprintf(`{"id":%d,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params","height":"%d"}}`, i, 700+i)
		_, body := post(t, server.URL, call)
		expect.Contains(t, body, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, i), "response to a read while searches wait")
	}
	search(http.DefaultClient, "tx_search", "query", "tx.height = 5")
	waitForQueue(t, metrics, all)
	expect.Equal(t, n.countCalls("abci_query"), 5, "reads at the node")
	expect.Equal(t, n.countCalls("block_search"), 1, "searches at the node")
	answer()
	clients.Wait()
	searches := slices.DeleteFunc(n.callsOf(""), func(key string) bool { return !strings.Contains(key, "_search") })
	expect.Equal(t, len(searches), all, "searches at the node at the end")
	if at := slices.IndexFunc(searches, func(key string) bool { return strings.HasPrefix(key, "tx_search") }); at > 2 {
		t.Errorf("place of the other client's search = %d, want at most 3", at+1)
	}
}

// panickingNodes panic if they are asked for health.
type panickingNodes struct{ blocks.Nodes }

func (n panickingNodes) Fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	if r.Call.Method == "health" {
		panic("test")
	}
	return n.Nodes.Fetch(ctx, r)
}

func TestCallThatPanicsFailsAlone(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	metrics := prometheus.NewRegistry()
	server := newHandlerOf(t, panickingNodes{n.pool(t, metrics)}, metrics, c, rpc.Options{})
	_, body := post(t, server.URL, `[{"id":1,"method":"health"},`+paramsCall+`]`)
	if !strings.HasPrefix(body, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Server error","data":"internal error"}},{"jsonrpc":"2.0","id":7,"result":`) {
		t.Errorf("response = %s, want an internal error and a result", body)
	}
}
