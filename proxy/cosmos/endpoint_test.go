package cosmos

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	sdk "github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// handlerOf returns a handler with rows of an operator. Its nodes have only a tip.
func handlerOf(t testing.TB, own ...dialect.Row) *Handler {
	t.Helper()
	return handlerFor(t, atTip{}, own...)
}

// handlerFor returns a handler in front of nodes.
func handlerFor(t testing.TB, nodes blocks.Nodes, own ...dialect.Row) *Handler {
	t.Helper()
	memory := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { _ = memory.Close() })
	r := expect.Value(blocks.New(blocks.Options{Nodes: nodes}, web.New(web.Options{}, nil), memory))(t)
	return expect.Value(New(Options{Rows: own, Posting: blocks.NewPosting(blocks.Posts{})}, r))(t)
}

// atTip are nodes with a tip only.
type atTip struct{ blocks.Nodes }

func (atTip) Tip() node.Tip { return node.Tip{Known: true, Height: 100, Interval: 4 * time.Second} }

// ask asks the nodes for a read.
func ask(t *testing.T, q *blocks.Read, unpinned bool) (*node.Answer, error) {
	t.Helper()
	asked := q.Ask
	asked.Height, asked.Unpinned = node.AtTip, unpinned
	return q.Source.Ask(t.Context(), q, asked, nil)
}

// parse returns the row and the query of a request.
func (h *Handler) parse(decoded, rawQuery string) (row *dialect.Endpoint, q *blocks.Read) {
	r := web.NewRequest(&http.Request{URL: &url.URL{Path: decoded, RawQuery: rawQuery}})
	row = h.Table.Endpoint(r)
	q, _ = row.Parse(r) // fails only for heights
	return row, q
}

// keyOf returns the cache key of a request target.
func keyOf(t testing.TB, x *Handler, target string) string {
	t.Helper()
	u := expect.Value(url.ParseRequestURI(target))(t)
	_, q := x.parse(u.Path, u.RawQuery)
	return q.Key
}

// Prefixes of modules.
const (
	auth    = "/cosmos/auth/v1beta1"
	bank    = "/cosmos/bank/v1beta1"
	comet   = "/cosmos/base/tendermint/v1beta1"
	gov     = "/cosmos/gov/v1"
	staking = "/cosmos/staking/v1beta1"
	wasm    = "/cosmwasm/wasm/v1"
)

const (
	d0   = "cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8"
	val1 = "cosmosvaloper1js736jheaahhg0jmqdxl0qwsqg02w70v2gxt2u"
)

func TestEquivalentRequestsHaveOneKey(t *testing.T) {
	x := handlerOf(t)
	for name, targets := range map[string][]string{
		"parameters in any order":         {staking + "/validators?status=BOND_STATUS_BONDED&pagination.limit=2", staking + "/validators?pagination.limit=2&status=BOND_STATUS_BONDED"},
		"snake and camel case":            {staking + "/validators?pagination.count_total=true", staking + "/validators?pagination.countTotal=1"},
		"unknown parameters":              {staking + "/validators", staking + "/validators?foo=bar&pagination.foo=1&PAGINATION.LIMIT=1&&"},
		"duplicates of one parameter":     {staking + "/validators?pagination.limit=1", staking + "/validators?pagination.limit=1&pagination.limit=2"},
		"integers in any base":            {staking + "/validators?pagination.limit=8", staking + "/validators?pagination.limit=010", staking + "/validators?pagination.limit=0x8", staking + "/validators?pagination.limit=0b1_000"},
		"integers in the path":            {comet + "/blocks/8", comet + "/blocks/010", comet + "/blocks/0x8"},
		"an account number of 64 bits":    {auth + "/address_by_id/18446744073709551615", auth + "/address_by_id/0xffffffffffffffff"},
		"default and empty values":        {staking + "/validators", staking + "/validators?pagination.limit=0&pagination.reverse=false&status=&pagination.key="},
		"page keys in both alphabets":     {gov + "/proposals/10/votes?pagination.key=FC%2B5UqFjW6XrHH3sAhFGBjyzTsy7", gov + "/proposals/10/votes?pagination.key=FC-5UqFjW6XrHH3sAhFGBjyzTsy7"},
		"addresses in capitals":           {bank + "/balances/" + d0, bank + "/balances/" + strings.ToUpper(d0)},
		"a slash in a denom":              {bank + "/denoms_metadata/ibc/27394FB0", bank + "/denoms_metadata/ibc%2F27394FB0"},
		"a slash in a denom of the query": {bank + "/balances/" + d0 + "/by_denom?denom=ibc%2FAB", bank + "/balances/" + d0 + "/by_denom?denom=ibc/AB"},
		"smart queries in both alphabets": {wasm + "/contract/c/smart/eyJhIjoiPz8_Pj4-fn5-In0=", wasm + "/contract/c/smart/eyJhIjoiPz8/Pj4+fn5+In0=", wasm + "/contract/c/smart/eyJhIjoiPz8%2FPj4%2Bfn5%2BIn0%3D"},
		"a colon at the end":              {bank + "/balances/" + d0, bank + "/balances/" + d0 + ":"},
		"an escaped letter":               {staking + "/params", staking + "/%70arams", "/cosmos/staking%2Fv1beta1/params"},
		"the hash of a transaction":       {txs + "/txs/EBD29CAD", txs + "/txs/ebd29cad"},
		"parameters of an unknown module": {"/osmosis/gamm/v1beta1/pools?b=2&a=1", "/osmosis/gamm/v1beta1/pools?a=1&b=2"},
		"values of an unknown module":     {"/osmosis/gamm/v1beta1/pools?a=x%2Fy", "/osmosis/gamm/v1beta1/pools?a=x/y"},
		"a path without parameters":       {staking + "/pool", staking + "/pool?height=860"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, target := range targets[1:] {
				expect.NoDiff(t, keyOf(t, x, target), keyOf(t, x, targets[0]), "key of %s, which is equivalent to %s", target, targets[0])
			}
		})
	}
}

func TestOnlyAPositiveHeightNamesAPastBlock(t *testing.T) {
	var own []dialect.Row
	for _, line := range []string{
		"by_query /own/query block cheap height", "by_round /own/round/{round} block cheap", "by_height /own/{module}/at/{height} block cheap",
		"by_rest /own/rest/{any=**} block cheap", "unnamed /own/none block cheap",
	} {
		own = append(own, expect.Value(ParseRow(line))(t))
	}
	h := handlerOf(t, own...)
	for target, want := range map[string]blocks.Class{
		"/own/query?height=0x7": blocks.Block, "/own/query?height=latest": blocks.Latest, "/own/query?height=": blocks.Latest, "/own/query": blocks.Latest,
		"/own/round/7": blocks.Block, "/own/round/latest": blocks.Latest, "/own/round/0": blocks.Latest, "/own/round/": blocks.Latest,
		"/own/mint/at/7": blocks.Block, "/own/7/at/latest": blocks.Latest,
		"/own/rest/7": blocks.Block, "/own/rest/latest": blocks.Latest, "/own/rest/7/8": blocks.Latest, "/own/none?height=7": blocks.Latest,
	} {
		path, raw, _ := strings.Cut(target, "?")
		_, q := h.parse(path, raw)
		expect.Equal(t, q.Kind.Class, want, "class of %s", target)
	}
	for _, row := range table() {
		path, isLast := strings.CutSuffix(row.Pattern, "{height}")
		if row.Class != blocks.Block || !isLast {
			expect.Equal(t, row.Class == blocks.Block, false, "whether %s is of class block and not tested", row.Name)
			continue
		}
		for height, want := range map[string]blocks.Class{
			"7": blocks.Block, "0x7": blocks.Block, "0": blocks.Latest, "-7": blocks.Latest, "": blocks.Latest, "7.5": blocks.Latest, "9223372036854775808": blocks.Latest, "newest": blocks.Latest,
		} {
			_, q := h.parse(path+height, "")
			expect.Equal(t, q.Kind.Class, want, "class of %s", path+height)
		}
	}
}

// movingNode answers each read with the number of reads so far, at a tip that the test moves.
type movingNode struct {
	blocks.Nodes
	tip   int64
	reads int
}

func (n *movingNode) Tip() node.Tip {
	return node.Tip{Known: true, Height: n.tip, Limit: n.tip, Interval: 4 * time.Second, Since: time.Now()}
}
func (n *movingNode) HashOf(int64) string                 { return "" }
func (n *movingNode) Replaced(int64, string) bool         { return false }
func (n *movingNode) Expected(node.Request) time.Duration { return 0 }
func (n *movingNode) ChainID() string                     { return "" }
func (n *movingNode) Fetch(context.Context, node.Request) (*node.Answer, error) {
	n.reads++
	return &node.Answer{NodeStatus: http.StatusOK, Type: "application/json", Body: []byte(strconv.Itoa(n.reads))}, nil
}

func TestLatestResultsAreReadAgainAtNextBlock(t *testing.T) {
	n := &movingNode{tip: 100}
	h := handlerFor(t, n)
	for target, want := range map[string]string{comet + "/block_results/latest": "2", comet + "/block_results/7": "1"} {
		for n.tip, n.reads = 100, 0; n.tip <= 101; n.tip++ {
			w := httptest.NewRecorder()
			r := web.NewHTTPRequest(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
			r.Record.Start = time.Now()
			route, _ := h.Route(r)
			expect.NoError(t, route.Serve(r))
			expect.Equal(t, route.Name, "comet_block_results", "route of %s", target)
			isPast := strings.Contains(w.Header().Get("Cache-Control"), "immutable")
			expect.Equal(t, isPast, want == "1", "whether %s is immutable", target)
			if n.tip == 101 {
				expect.Equal(t, w.Body.String(), want, "%s after a block", target)
			}
		}
	}
}

func TestAmbiguousRequestsHaveDifferentKeys(t *testing.T) {
	x := handlerOf(t)
	for name, targets := range map[string][2]string{
		"octal is not decimal":                       {staking + "/validators?pagination.limit=10", staking + "/validators?pagination.limit=010"},
		"both names of one field":                    {staking + "/validators?pagination.count_total=true", staking + "/validators?pagination.count_total=true&pagination.countTotal=false"},
		"a JSON name that overrides the path":        {staking + "/validators/" + val1 + "/delegations", staking + "/validators/" + val1 + "/delegations?validatorAddr=x"},
		"a value in the name":                        {staking + "/validators?pagination.limit=2", staking + "/validators?pagination.limit[7]=2"},
		"an empty integer is an error":               {staking + "/validators", staking + "/validators?pagination.limit="},
		"a bad escape is an error":                   {staking + "/validators", staking + "/validators?x=%zz"},
		"a semicolon is an error":                    {staking + "/validators?pagination.limit=1", staking + "/validators?pagination.limit=1;status=x"},
		"a slash and its escape in a value":          {bank + "/denom_owners/a/b", bank + "/denom_owners/a%252Fb"},
		"addresses in mixed case":                    {bank + "/balances/" + d0, bank + "/balances/" + d0[:8] + strings.ToUpper(d0[8:])},
		"two colons at the end":                      {bank + "/balances/" + d0 + ":", bank + "/balances/" + d0 + "::"},
		"another verb":                               {staking + "/params", staking + "/params:foo"},
		"unknown parameters of an unknown module":    {"/osmosis/gamm/v1beta1/pools", "/osmosis/gamm/v1beta1/pools?x=1"},
		"the order of one name in an unknown module": {"/osmosis/x/v1/y?a=1&a=2", "/osmosis/x/v1/y?a=2&a=1"},
		"upper case in a path":                       {staking + "/params", "/COSMOS/staking/v1beta1/params"},
		"a slash at the end":                         {staking + "/validators", staking + "/validators/"},
		"what looks like a height":                   {"/x?%zz", "/x?%zz@5"},
		"an enum and none":                           {gov + "/proposals", gov + "/proposals?proposal_status=6"},
		"an empty enum, which is an error":           {gov + "/proposals", gov + "/proposals?proposal_status="},
		"an empty order, which is an error":          {txs + "/txs?query=a", txs + "/txs?query=a&order_by="},
		"a page key without padding":                 {staking + "/validators?pagination.key=AAA=", staking + "/validators?pagination.key=AAA"},
	} {
		t.Run(name, func(t *testing.T) {
			if a, b := keyOf(t, x, targets[0]), keyOf(t, x, targets[1]); a == b {
				t.Errorf("key of %s and %s = %s, want different keys", targets[0], targets[1], a)
			}
		})
	}
}

func TestKeysContainNoAtSign(t *testing.T) {
	x := handlerOf(t)
	for _, target := range []string{"/x?%zz@5", "/x@5", "/x?a=@5", bank + "/balances/a@5", staking + "/validators?status=@5&pagination.limit=@5"} {
		if key := keyOf(t, x, target); strings.Contains(key, "@") {
			t.Errorf("key of %s = %s, want no @, which precedes heights", target, key)
		}
	}
}

// fixedChain has no new blocks.
type fixedChain struct{}

func (fixedChain) Now() state.Clock  { return state.Clock{Height: 1000, Oldest: 1, Stored: 1000} }
func (fixedChain) Forks(int64) int64 { return 0 }
func (fixedChain) Block(int64) (_ time.Time, _, _ []byte) {
	return time.Time{}, make([]byte, 32), make([]byte, 32)
}

// FuzzCanonicalRequestKeepsItsMeaning sends a node the client's request and its canonical form, and compares the responses.
// The cache key is the canonical form, so requests with different meanings have different keys.
func FuzzCanonicalRequestKeepsItsMeaning(f *testing.F) {
	for _, x := range nodetest.Exchanges(f, "../../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		f.Add(x.Path, x.Query)
	}
	f.Add(staking+"/validators/"+val1+"/delegations", "validatorAddr=x&pagination.limit=0x2&pagination.limit[3]=1")
	f.Add(gov+"/proposals/012/votes:", "pagination.Key=AR1jE+AKMQeVvrxWGT3946QXGVg=&pagination.count_total=t&pagination.countTotal=f")
	f.Add("/cosmos/auth/v1beta1/accounts", "x=%\xb9 y")
	x := handlerOf(f)
	node := sdk.NewChain(state.Options{Delegators: 20}).Handler(fixedChain{}, false, func(string, int64) {})
	f.Fuzz(func(t *testing.T, path, query string) {
		u, err := url.ParseRequestURI(path + "?" + query)
		if err != nil || u.Host != "" || clean(u.Path) != u.Path {
			t.Skip()
		}
		row, q := x.parse(u.Path, u.RawQuery)
		_, again := x.parse(q.Ask.Path, q.Ask.Query)
		if again.Key != q.Key {
			t.Fatalf("key of the canonical request %q?%q = %s, want %s as of %q?%q", q.Ask.Path, q.Ask.Query, again.Key, q.Key, path, query)
		}
		if strings.Contains(q.Key, "@") {
			t.Fatalf("key = %q, want no @", q.Key)
		}
		sent := strings.ReplaceAll(u.RawQuery, " ", "%20") // HTTP/1.1 cannot send a space, and an error can quote it
		want, got := responseOf(node, u.Path, sent), responseOf(node, q.Ask.Path, q.Ask.Query)
		base64 := row.Row.Name == "wasm_smart" || row.Row.Name == "wasm_raw" // the node does not understand a slash in it
		if !strings.EqualFold(want, got) && !(base64 && strings.HasPrefix(want, "501")) {
			t.Fatalf("response to the canonical request %q?%q = %s, want %s as to %q?%q", q.Ask.Path, q.Ask.Query, got, want, path, sent)
		}
	})
}

// responseOf returns the node's response to a decoded path and a raw query.
func responseOf(node http.Handler, path, query string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL = &url.URL{Path: path, RawQuery: query}
	r.RequestURI = r.URL.RequestURI()
	w := httptest.NewRecorder()
	node.ServeHTTP(w, r)
	return w.Result().Status + w.Body.String()
}

// restartedNode cannot read its latest block until the next one arrives.
type restartedNode struct{ atTip }

func (restartedNode) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	if r.Unpinned {
		return nil, node.ErrNoLatest
	}
	return &node.Answer{NodeStatus: http.StatusOK, Reason: node.OK, Height: 100}, nil
}

func TestLatestIsReadAtTheTipOfARestartedNode(t *testing.T) {
	_, q := handlerFor(t, restartedNode{}).parse(staking+"/params", "")
	a, err := ask(t, q, true)
	if err != nil || a.Height != 100 {
		t.Errorf("Fetch = %+v, %v; want an answer at the tip, 100", a, err)
	}
}

// answeringNode returns an answer to each read.
type answeringNode struct {
	atTip
	answer node.Answer
}

func (n *answeringNode) Fetch(context.Context, node.Request) (*node.Answer, error) {
	return &n.answer, nil
}

func TestHeadersAreThoseOfTheLastAnswerOfTheState(t *testing.T) {
	const codec = "application/grpc"
	for name, tt := range map[string]struct {
		answer node.Answer
		before string // codec of the answer before
		want   bool   // whether the node uses gRPC
	}{
		"a value":                    {node.Answer{Reason: node.OK, Height: 90, Codec: codec}, "", true},
		"a value without a codec":    {node.Answer{Reason: node.OK, Height: 90}, codec, false},
		"a refusal":                  {node.Answer{Reason: node.Refused, Height: 90, Codec: codec}, "", true},
		"a refusal without a codec":  {node.Answer{Reason: node.Refused, Height: 90}, codec, true},
		"a value of no known height": {node.Answer{Reason: node.OK, Codec: codec}, "", false},
		"a failure without a height": {node.Answer{Reason: node.Other}, codec, true},
	} {
		nodes := &answeringNode{answer: node.Answer{Reason: node.OK, Height: 90, Codec: tt.before}}
		h := handlerFor(t, nodes)
		_, q := h.parse(staking+"/params", "")
		for _, a := range []node.Answer{nodes.answer, tt.answer} {
			nodes.answer = a
			expect.Value(ask(t, q, false))(t)
		}
		expect.Equal(t, h.usesGRPC.Load(), tt.want, "whether the node uses gRPC after %s", name)
	}
}

func TestFailuresAreMarkedAndExpireSoon(t *testing.T) {
	h := handlerOf(t)
	_, q := h.parse(staking+"/params", "")
	const state, negative = time.Duration(0), 3 * time.Second // lifetimes by the policy
	befores := []*cache.Entry{nil}
	for _, reason := range []node.Reason{node.Refused, node.Ambiguous} {
		befores = append(befores, expect.Value(q.Source.Entry(q, &node.Answer{NodeStatus: 500, Reason: reason, Body: []byte("{}")}, nil))(t))
	}
	for name, tt := range map[string]struct {
		answer node.Answer
		failed bool
		life   time.Duration
	}{
		"a value":                               {node.Answer{NodeStatus: 200, Reason: node.OK, Height: 90}, false, state},
		"a refusal with the state's codespace":  {node.Answer{NodeStatus: 400, Reason: node.Refused, Codec: "sdk", Height: 90}, false, state},
		"an internal error at a height":         {node.Answer{NodeStatus: 500, Reason: node.Refused, Codec: "sdk", Height: 90, Brief: true}, false, negative},
		"a refusal that may not be the state's": {node.Answer{NodeStatus: 400, Reason: node.Refused}, false, 4 * time.Second},
		"a future height":                       {node.Answer{NodeStatus: 400, Reason: node.FutureHeight}, false, time.Second},
		"an ambiguous 400":                      {node.Answer{NodeStatus: 400, Reason: node.Ambiguous}, false, negative},
		"an ambiguous 499":                      {node.Answer{NodeStatus: 499, Reason: node.Ambiguous}, false, negative},
		"an ambiguous 500":                      {node.Answer{NodeStatus: 500, Reason: node.Ambiguous}, true, negative},
		"a failure":                             {node.Answer{NodeStatus: 400, Reason: node.Other}, true, time.Second},
		"a gateway's 502":                       {node.Answer{NodeStatus: 502, Reason: node.Ambiguous}, true, negative},
		"a gateway's 503":                       {node.Answer{NodeStatus: 503, Reason: node.Refused, Codec: "sdk"}, true, state},
		"a gateway's 504":                       {node.Answer{NodeStatus: 504, Reason: node.Ambiguous}, true, time.Second},
	} {
		tt.answer.Body = []byte("{}")
		for _, before := range befores { // its failure, or that it had none, says nothing about this answer
			e := expect.Value(q.Source.Entry(q, &tt.answer, before))(t)
			var life time.Duration
			if !e.Expires.IsZero() {
				life = e.Expires.Sub(e.ReadAt)
			}
			if e.Failed != tt.failed || life != tt.life {
				t.Errorf("%s: failed = %t, lifetime = %v; want %t, %v", name, e.Failed, life, tt.failed, tt.life)
			}
		}
	}
}

// countingNode counts reads, and answers each with a status.
type countingNode struct {
	atTip
	status, reads int
}

func (n *countingNode) Fetch(context.Context, node.Request) (*node.Answer, error) {
	n.reads++
	return &node.Answer{NodeStatus: n.status, Reason: node.Refused, Body: []byte("{}")}, nil
}

func TestColonHidesNoDotSegment(t *testing.T) {
	nodes := &countingNode{status: http.StatusOK}
	h := handlerFor(t, nodes)
	for _, path := range []string{"/..:", "/.:", bank + "/balances/..:", bank + "/balances/%2e%2e:?a=1;b"} {
		r := web.NewHTTPRequest(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		route, _ := h.Route(r)
		if err := route.Serve(r); err == nil || failure.Of(err).Status != http.StatusNotImplemented {
			t.Errorf("error of %s = %v, want status 501", path, err)
		}
		expect.Equal(t, h.Endpoint(r) == nil, true, "whether %s has no endpoint", path)
	}
	expect.Equal(t, nodes.reads, 0, "reads of a node")
}

func TestUnreadableQueryIsSentWithoutSpaces(t *testing.T) {
	_, q := handlerOf(t).parse(staking+"/validators", "pagination.limit=x y")
	expect.Equal(t, q.Ask.Query, "pagination.limit=x%20y", "query for the node")
}

// foreignNode returns a page of another server.
type foreignNode struct{ atTip }

func (foreignNode) Fetch(context.Context, node.Request) (*node.Answer, error) {
	return nil, &upstream.Error{Kind: upstream.BadAnswer, Err: node.ErrForeign}
}

func TestForeignPageIsExpectedOnlyAtUnknownPath(t *testing.T) {
	h := handlerFor(t, foreignNode{})
	for path, want := range map[string]bool{"/swagger/": true, staking + "/params": false} {
		_, q := h.parse(path, "")
		_, err := ask(t, q, false)
		expect.Equal(t, failure.Of(err).Expected, want, "whether the failure of %s is expected", path)
		expect.Equal(t, failure.Of(err).Status, http.StatusBadGateway, "status of %s", path)
	}
}

func TestInternalErrorNamesItsBlockUntilItExpires(t *testing.T) {
	h := handlerOf(t)
	_, q := h.parse(staking+"/params", "")
	for name, tt := range map[string]struct {
		answer   node.Answer
		noHeight bool
	}{
		"at a height":     {node.Answer{NodeStatus: 500, Reason: node.Refused, Codec: "sdk", Height: 90, Brief: true}, false},
		"without height":  {node.Answer{NodeStatus: 500, Reason: node.Ambiguous}, true},
		"a future height": {node.Answer{NodeStatus: 500, Reason: node.FutureHeight, Height: 900}, true},
	} {
		tt.answer.Body = []byte(`{"code":13}`)
		e := expect.Value(q.Source.Entry(q, &tt.answer, nil))(t)
		if got := q.Kind.Headers(e, q.Key).NoHeight; got != tt.noHeight || e.Expires.IsZero() {
			t.Errorf("%s: NoHeight = %t, expires %v; want %t and an expiry", name, got, e.Expires, tt.noHeight)
		}
	}
}
