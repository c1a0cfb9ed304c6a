package story

import (
	"encoding/base64"
	"fmt"
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

func newHandler(t *testing.T, nodes blocks.Nodes, o Options, rows ...dialect.Row) *Handler {
	t.Helper()
	r := expect.Value(blocks.New(blocks.Options{Nodes: nodes}, web.New(web.Options{}, nil), nil))(t)
	return expect.Value(New(o, rows, r))(t)
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
			h := newHandler(t, nodes, Options{RefuseUnknown: true})
			parse := func(query string) *blocks.Read {
				t.Helper()
				request := newRequest(t, tt.path+"?"+query)
				return expect.Value(h.Table.Endpoint(request).Parse(request))(t)
			}
			read := func(height int64, before *cache.Entry) *cache.Entry {
				t.Helper()
				body := fmt.Sprintf(`{"code":200,"msg":{"pagination":{"next_key":%q,"total":"0"}},"error":""}`, base64.StdEncoding.EncodeToString([]byte(tt.nodeKey)))
				q := parse(tt.query)
				return expect.Value(q.Source.Entry(q, &node.Answer{Status: 200, NodeStatus: 200, Height: height, Type: "application/json", Body: []byte(body)}, before))(t)
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

func TestRowOfOperatorKeepsShapeAndPageKeysOfBuiltInRow(t *testing.T) {
	const raw = "\x14abcdefghijklmnopqrst"
	walk := walkKey{blocks.Snapshot{Height: 100}, raw}.text(someChain, somePath)
	body := `{"code":200,"msg":{"validators":null,"pagination":{"next_key":"` + base64.StdEncoding.EncodeToString([]byte(raw)) + `"}},"error":""}`
	documented := func(nextKey string) string {
		return `{"code":200,"msg":{"validators":[],"pagination":{"next_key":"` + nextKey + `","total":"0"}},"error":""}`
	}
	for name, tt := range map[string]struct {
		row  dialect.Row
		want string
	}{
		"a list": {dialect.Row{Pattern: somePath, Class: blocks.Live, Query: "pagination"}, documented(walk)},
		"a list without pages": {
			dialect.Row{Pattern: somePath, Class: blocks.Live}, documented(base64.StdEncoding.EncodeToString([]byte(raw))),
		},
		"a list that is never cached": {
			dialect.Row{Pattern: somePath, Class: blocks.Never, Query: "pagination"}, documented(base64.StdEncoding.EncodeToString([]byte(raw))),
		},
		"more than the paths of a built-in row": {dialect.Row{Pattern: "/staking/{list}", Class: blocks.Live, Query: "pagination"}, body},
	} {
		t.Run(name, func(t *testing.T) {
			tt.row.Name = "own"
			h := newHandler(t, &epochNodes{}, Options{RefuseUnknown: true}, tt.row)
			request := newRequest(t, somePath)
			q := expect.Value(h.Table.Endpoint(request).Parse(request))(t)
			e := expect.Value(q.Source.Entry(q, &node.Answer{Status: 200, NodeStatus: 200, Height: 100, Type: "application/json", Body: []byte(body)}, nil))(t)
			if string(e.Body) != tt.want {
				t.Errorf("body = %s, want %s", e.Body, tt.want)
			}
		})
	}
	h := newHandler(t, &epochNodes{}, Options{RefuseUnknown: true}, dialect.Row{
		Name: "own", Pattern: "/staking/validators/{v:address}/delegations", Class: blocks.Live, Query: "pagination",
	})
	address := "/staking/validators/0x" + strings.Repeat("ab", 20) + "/delegations"
	walk = walkKey{blocks.Snapshot{Height: 100}, strings.Repeat("a", 20)}.text(someChain, address)
	request := newRequest(t, address+"?pagination.key="+walk)
	if q := expect.Value(h.Table.Endpoint(request).Parse(request))(t); q.Walk.Height != 100 || q.Ask.Query != "pagination.key="+strings.Repeat("a", 20) {
		t.Errorf("query = %q at block %d, want the raw key at block 100", q.Ask.Query, q.Walk.Height)
	}
}
