package story

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// epochNodes implement the methods of nodes that return the chain and its epoch.
type epochNodes struct {
	blocks.Nodes
	epoch int64
}

func (epochNodes) ChainID() string { return someChain }
func (n *epochNodes) Tip() node.Tip {
	return node.Tip{Known: true, Height: 1000, Epoch: n.epoch}
}

func newHandler(t *testing.T, o Options) *Handler {
	t.Helper()
	r := expect.Value(blocks.New(blocks.Options{Nodes: o.Nodes}, web.New(web.Options{}, nil), nil))(t)
	return expect.Value(New(o, r))(t)
}

func TestPageReusesNextKeyForSomeBlocks(t *testing.T) {
	nodes := &epochNodes{}
	h := newHandler(t, Options{Nodes: nodes, RefuseUnknown: true})
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: somePath}}
	q := expect.Value(h.Table.Endpoint(request).Parse(request))(t)
	read := func(height int64, before *cache.Entry) *cache.Entry {
		t.Helper()
		key := base64.StdEncoding.EncodeToString([]byte("\x14abcdefghijklmnopqrst"))
		body := fmt.Sprintf(`{"code":200,"msg":{"validators":[],"pagination":{"next_key":%q,"total":"0"}},"error":""}`, key)
		return expect.Value(q.Entry(&node.Answer{Status: 200, NodeStatus: 200, Height: height, Type: "application/json", Body: []byte(body)}, before))(t)
	}
	first := read(100, nil)
	for height, same := range map[int64]bool{100: true, 101: true, 100 + StampBlocks - 1: true, 100 + StampBlocks: false, 99: false} {
		if e := read(height, first); (e.ETag == first.ETag) != same {
			t.Errorf("page at block %d = %s, want the page of block 100, %s: %t", height, e.Body, first.Body, same)
		}
	}
	nodes.epoch++
	if e := read(101, first); e.ETag == first.ETag {
		t.Errorf("page after a rollback = %s, want another key", e.Body)
	}
}
