package rpc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// oldTip is a pool whose newest block has an age.
type oldTip struct {
	*node.Pool
	age time.Duration
}

func (o oldTip) Tip() node.Tip {
	t := o.Pool.Tip()
	t.Since = time.Now().Add(-o.age)
	return t
}

func TestAnswersFromIndexExpireSoonWhileItMayLag(t *testing.T) {
	const noBlock, found, search, missing = "/block_by_hash?hash=0xAB", "/tx?hash=0x7E75D97EAE3014F7CDFADFB40C46199914596F55CB886F6BE3D4E2E56C97F554", "/tx_search?query=%22tx.height=14%22", "/tx?hash=0xAB"
	for name, tt := range map[string]struct {
		target string
		age    time.Duration
		short  bool
	}{
		"a transaction":                                 {found, 0, false},
		"a search while the index may lag":              {search, 0, true},
		"a search later":                                {search, time.Second, false},
		"a missing transaction while the index may lag": {missing, 0, true},
		"a missing transaction later":                   {missing, time.Second, false},
		"a missing block":                               {noBlock, 0, true},
		"a gateway's null":                              {"/tx?hash=0x4E", 0, true},
		"a gateway's empty object":                      {"/tx?hash=0x45", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := expect.Value(cache.New(cache.Options{}))(t)
			defer c.Close()
			n, metrics := newRecordedNode(t), prometheus.NewRegistry()
			n.setAnswer(`tx_search{"query":"tx.height=14"}`, `"result":{"txs":[],"total_count":"0"}`)
			n.setAnswer(`block_by_hash{"hash":"qw=="}`, `"result":{"block_id":{"hash":""},"block":null}`)
			n.setAnswer(`tx{"hash":"Tg=="}`, `"result":null`)
			n.setAnswer(`tx{"hash":"RQ=="}`, `"result":{}`)
			server := newHandlerOf(t, oldTip{n.pool(t, metrics), tt.age}, metrics, c, rpc.Options{})
			resp, _ := get(t, server.URL+tt.target)
			if got := resp.Header.Get("Cache-Status"); strings.HasSuffix(got, "; ttl=0") != tt.short || !strings.Contains(got, "stored") {
				t.Errorf("Cache-Status = %q, want stored, and ttl=0: %t", got, tt.short)
			}
		})
	}
}
