package rpc_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func queued(t testing.TB, metrics *prometheus.Registry, want float64) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("%v requests wait", want), func() bool { return expect.Metric(t, metrics, "tipcache_node_queue_length") == want })
}

func TestSearchesOfOneClientHoldUpNeitherReadsNorSearchesOfAnother(t *testing.T) {
	n := newRecordedNode(t)
	n.learnParams()
	n.turns = make(chan struct{})
	answer := sync.OnceFunc(func() { close(n.turns) })
	defer answer()
	const searching = "/cosmos.tx.v1beta1.Service/GetTxsEvent"
	server, metrics := newHandler(t, n, rpc.Options{State: state.Options{Rows: map[string]dialect.Row{searching: {Cost: node.Scan}}}})
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
	queued(t, metrics, all-2) // one is under way, and stays there
	search(other, "abci_query", "path", searching)
	queued(t, metrics, all-1)
	for i := range 5 {
		call := fmt.Sprintf(`{"id":%d,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params","height":"%d"}}`, i, 700+i)
		if _, body := post(t, server.URL, call); !strings.HasPrefix(body, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, i)) {
			t.Error(body)
		}
	}
	search(http.DefaultClient, "tx_search", "query", "tx.height = 5")
	queued(t, metrics, all)
	if asked := n.times("abci_query"); asked != 5 || n.times("block_search") != 1 {
		t.Errorf("with %d searches at the node it was asked for %d reads", n.times("block_search"), asked)
	}
	answer()
	clients.Wait()
	if order := append(n.wrote("block_search"), n.wrote("tx_search")...); len(order) != all {
		t.Errorf("%d searches were made", len(order))
	}
	searches := slices.DeleteFunc(n.wrote(""), func(what string) bool { return !strings.Contains(what, "_search") })
	if place := slices.IndexFunc(searches, func(what string) bool { return strings.HasPrefix(what, "tx_search") }); place > 2 {
		t.Errorf("the search of the client that made one was number %d", place+1)
	}
}
