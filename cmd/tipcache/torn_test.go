package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A node that commits a block may answer reads at the block before with the new block's state. Once it has committed, no form
// of a request gets that answer again.
func TestStateOfNextBlockIsNotKeptForPastBlock(t *testing.T) {
	t.Parallel()
	for name, dialect := range map[string]devnet.Dialect{"Story": devnet.Story, "Cosmos": devnet.Cosmos} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{Interval: -1, Dialect: dialect})
			var torn atomic.Bool
			mark := func(_ string, body []byte) []byte {
				if torn.Load() {
					body = bytes.ReplaceAll(body, []byte(`"moniker":"`), []byte(`"moniker":"torn `))
					body = bytes.Replace(body, []byte(`"key":null,"value":"`), []byte(`"key":null,"value":"AAAA`), 1)
				}
				return body
			}
			r := startRunning(t, d, func(c *config.Config) {
				c.Chain.Nodes, c.Chain.Comet = []string{rewriting(t, d.NodeURL(), mark)}, []string{rewriting(t, d.CometURL(), mark)}
				c.RPC.Listen = "127.0.0.1:0"
			})
			height := fmt.Sprint(d.Height())
			forms := storyForms(r, height)
			if dialect == devnet.Cosmos {
				forms = cosmosForms(r, height)
			}
			torn.Store(true)
			for form, read := range forms {
				got := read()
				expect.Equal(t, isTorn(got.body), true, "%s: whether the state of the next block is served while it is committed (%.300s)", form, got.body)
				if strings.Contains(got.header.Get("Cache-Control"), "immutable") {
					t.Errorf("%s: Cache-Control = %s, want no immutable before a later block can be read", form, got.header.Get("Cache-Control"))
				}
			}
			torn.Store(false)
			d.Advance(1)
			r.eventually("the next block", func() bool { return r.ready().Tip == d.Height() })
			for form, read := range forms {
				got := read()
				got.expectStatus(t, http.StatusOK)
				expect.Equal(t, isTorn(got.body), false, "%s: whether the state of the next block is served afterwards", form)
				if form == "URL" {
					expect.Contains(t, got.header.Get("Cache-Control"), "immutable", "Cache-Control of a past block in the URL")
				}
			}
		})
	}
}

func isTorn(body string) bool {
	return strings.Contains(body, "torn ") || strings.Contains(body, `"value":"AAAA`) || len(body) > 8 && body[5:8] == "\x00\x00\x00"
}

// storyForms returns the forms of a read of Story's API at a block, which must be the newest.
func storyForms(r *instance, height string) map[string]func() reply {
	const list = "/staking/validators?pagination.limit=2"
	next := url.QueryEscape(gjson.Get(r.get(r.base+list).body, "msg.pagination.next_key").Str)
	return map[string]func() reply{
		"header": func() reply { return r.get(r.base+list, "X-Block-Height", height) },
		"URL":    func() reply { return r.get(r.base + list + "&x-block-height=" + height) },
		"batch":  func() reply { return r.get(r.base+"/batch?path="+url.QueryEscape(list), "X-Block-Height", height) },
		"page":   func() reply { return r.get(r.base + list + "&pagination.key=" + next) },
	}
}

// cosmosForms returns the forms of a read of an SDK chain's state at a block.
func cosmosForms(r *instance, height string) map[string]func() reply {
	const list, pool = "/cosmos/staking/v1beta1/validators?pagination.limit=2", "/cosmos.staking.v1beta1.Query/Pool"
	rpc := "http://" + r.Addresses.RPC
	params := fmt.Sprintf(`{"path":%q,"data":"","height":%q,"prove":false}`, pool, height)
	return map[string]func() reply{
		"header":      func() reply { return r.get(r.base+list, "X-Cosmos-Block-Height", height) },
		"URL":         func() reply { return r.get(r.base + list + "&x-block-height=" + height) },
		"batch":       func() reply { return r.get(r.base+"/batch?path="+url.QueryEscape(list), "X-Block-Height", height) },
		"RPC by URI":  func() reply { return r.get(rpc + `/abci_query?path="` + pool + `"&data=0x&height=` + height) },
		"RPC by POST": func() reply { return r.do(http.MethodPost, rpc, `{"id":1,"method":"abci_query","params":`+params+`}`) },
		"gRPC-Web": func() reply {
			return r.do(http.MethodPost, r.base+pool, "\x00\x00\x00\x00\x00", "Content-Type", "application/grpc-web+proto", "X-Cosmos-Block-Height", height)
		},
	}
}
