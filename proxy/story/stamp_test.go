package story

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
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
	hexAddress := "0x" + strings.Repeat("ab", 20)
	for name, tt := range map[string]struct {
		path, query, nodeKey string
		inLink               bool // the documented shape has no member for the key
	}{
		"a documented list":            {somePath, "", "\x14abcdefghijklmnopqrst", false},
		"a list in the node's shape":   {"/distribution/validators/" + hexAddress + "/slashes", "", "abcdefghijklmnop", false},
		"a list that names it by Link": {"/staking/validators/" + hexAddress + "/delegators/" + hexAddress + "/period_delegations", "pagination.limit=2&pagination.reverse=true", "17", true},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &epochNodes{}
			h := newHandler(t, Options{Nodes: nodes, RefuseUnknown: true})
			parse := func(query string) *dialect.RowQuery {
				t.Helper()
				request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: tt.path, RawQuery: query}}
				return expect.Value(h.Table.Endpoint(request).Parse(request))(t)
			}
			read := func(height int64, before *cache.Entry) *cache.Entry {
				t.Helper()
				body := fmt.Sprintf(`{"code":200,"msg":{"pagination":{"next_key":%q,"total":"0"}},"error":""}`, base64.StdEncoding.EncodeToString([]byte(tt.nodeKey)))
				return expect.Value(parse(tt.query).Entry(&node.Answer{Status: 200, NodeStatus: 200, Height: height, Type: "application/json", Body: []byte(body)}, before))(t)
			}
			first := read(100, nil)
			for height, same := range map[int64]bool{100: true, 101: true, 100 + StampBlocks - 1: true, 100 + StampBlocks: false, 99: false} {
				e := read(height, first)
				if (e.ETag == first.ETag) != same {
					t.Errorf("page at block %d = %s %s, want the page of block 100, %s: %t", height, e.Body, e.Link, first.Body, same)
				}
				next := "pagination.key=" + dialect.NextKey(e.Body, "msg."+dialect.NextKeyPath).Str
				if tt.inLink {
					next = strings.TrimSuffix(strings.TrimPrefix(e.Link, "<?"), `>; rel="next"`)
					expect.Contains(t, next, tt.query, "Link of the page")
				}
				want := height
				if same {
					want = 100
				}
				expect.Equal(t, parse(next).Walk.Height, want, "height of the page after that of block %d", height)
			}
			nodes.epoch++
			if e := read(101, first); e.ETag == first.ETag {
				t.Errorf("page after a rollback = %s, want another key", e.Body)
			}
		})
	}
}
