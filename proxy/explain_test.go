package proxy_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	tipredis "github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func explain(t *testing.T, p *proxy.Server, i proxy.Inquiry) proxy.Explanation {
	t.Helper()
	return expect.Value(p.Explain(t.Context(), i))(t)
}

func TestExplanationPredictsOutcomeOfRequest(t *testing.T) {
	now := time.Now() // does not pass, because a failure is remembered for one second
	c := expect.Value(cache.New(cache.Options{Patience: 20 * time.Second, FlightTimeout: 5 * time.Minute, Now: func() time.Time { return now }}))(t)
	t.Cleanup(func() { _ = c.Close() })
	s := startChain(t, proxy.Options{Cache: c})
	target := "/staking/validators/" + val5
	steps := []struct {
		name    string
		before  func(*fakeChain)
		verdict string
		status  string // part of the Cache-Status of the next request
		why     string
	}{
		{"no entry", func(*fakeChain) {}, "miss", "fwd=uri-miss", "Memory has nothing. Redis is not used. So the node is read. If that fails, the client gets the error."},
		{"a fresh entry", func(*fakeChain) {}, "hit", "hit", "Memory has it, at block 228, 0 behind the tip: within fresh_blocks 0. So it is served."},
		{"two blocks later", grow(2), "miss", "fwd=stale; stored", "2 behind the tip: past fresh_blocks 0, within stale_blocks 5. Redis is not used. So the node is read. If that fails or takes longer than "},
		{"two more blocks, and the node fails", func(f *fakeChain) { f.grow(2); f.failWith(errors.New("gone")) }, "miss", "stale-while-revalidate", "So the node is read."},
		{"just after the failure", func(*fakeChain) {}, "stale", "memory stale-while-revalidate", "So it is served at once, and the node is read again in the background. The last read failed: gone."},
		{"many blocks later", grow(100), "stale_error", "stale-if-error", "past stale_blocks 5, within error_blocks 1000. The last read failed (gone), so the entry is served without waiting for the node"},
		{"after another failure", func(*fakeChain) {}, "stale_error", "stale-if-error", "The last read failed (gone), so the entry is served without waiting for the node"},
		{"the tip is unknown", (*fakeChain).loseTip, "hit", "hit", "Memory has it, read "},
	}
	for _, step := range steps {
		step.before(s.chain)
		calls := s.chain.calls()
		e := explain(t, s.proxy, proxy.Inquiry{URL: target})
		if e.Verdict != step.verdict || !strings.Contains(e.Why, step.why) {
			t.Errorf("%s: verdict = %s because %s, want %s because %s", step.name, e.Verdict, e.Why, step.verdict, step.why)
		}
		expect.Equal(t, s.chain.calls(), calls, "%s: node requests after the explanation", step.name)
		expect.Contains(t, s.get(t, target).header.Get("Cache-Status"), step.status, "%s: Cache-Status of the next request", step.name)
	}
}

func TestExplanationOfABlockNamesNoLimit(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	block := "/cosmos/base/tendermint/v1beta1/blocks/" + strconv.FormatInt(s.Height()-1, 10)
	s.get(t, block).expect(t, http.StatusOK)
	s.advance(t)
	expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: block}).Why, "Memory has it, and it never changes. So it is served.", "explanation of a block")
	absent := sdkTxs + "/" + strings.Repeat("AB", 32)
	s.get(t, absent).expect(t, http.StatusNotFound)
	s.advance(t)
	expect.Contains(t, explain(t, s.proxy, proxy.Inquiry{URL: absent}).Why, "1 behind the tip: past stale_blocks 0", "explanation of an absent transaction")
}

func TestFastLaneOfARequestThatWaitsIsExplained(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Web.Lane = lane.New(lane.Options{}) })
	s.broadcast(t).expect(t, http.StatusOK)
	s.advance(t)
	target := sdkTxs + "/" + broadcastHash
	s.get(t, target).expect(t, http.StatusOK)
	for target, want := range map[string]string{target: "yes, for repeated requests", target + "?wait=1s": "no: the URL has a parameter of this server"} {
		expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: target}).FastLane, want, "fast lane of %s", target)
	}
}

func TestExplanationOfABatchNamesItsPaths(t *testing.T) {
	s := startChain(t, proxy.Options{})
	target := batchOf(poolPath, "/staking/validators?status=3")
	for _, step := range []struct{ verdict, status string }{{"miss", "fwd=uri-miss"}, {"hit", "hit"}} {
		e := explain(t, s.proxy, proxy.Inquiry{URL: target})
		if e.Verdict != step.verdict || e.Route != "batch" || e.Class != "live" || e.Asks != "the cache for /staking/pool, /staking/validators?status=3, all at one block" {
			t.Errorf("explanation = %+v, want verdict %s and the paths", e, step.verdict)
		}
		expect.Contains(t, s.get(t, target).header.Get("Cache-Status"), step.status, "%s: Cache-Status of the next request", step.verdict)
	}
	if e := explain(t, s.proxy, proxy.Inquiry{URL: batchOf(poolPath) + "&x-block-height=100"}); e.Class != "pinned" || e.Verdict != "miss" {
		t.Errorf("explanation at a height = %+v, want a miss of class pinned", e)
	}
	if e := explain(t, s.proxy, proxy.Inquiry{URL: batchOf("/docs")}); e.Refusal == nil || !strings.Contains(e.Refusal.Body, "is not about the state of the chain") {
		t.Errorf("explanation of a path that is not state = %+v, want a refusal", e)
	}
}

func TestExplanationNamesIgnoredParameters(t *testing.T) {
	for target, want := range map[string]string{
		"/staking/validators?status=3&pagination.limit=2&x-block-height=9&since=0": "",
		"/staking/validators?statuss=3&foo=1&foo=2&&%0A=":                          `statuss (did you mean status?), foo, "\n"`,
	} {
		expect.Equal(t, explain(t, startChain(t, proxy.Options{}).proxy, proxy.Inquiry{URL: target}).Ignored, want, "ignored parameters of %s", target)
	}
	sdk := newSDK(t, devnet.Options{}, nil).proxy
	for target, want := range map[string]string{
		"/cosmos/staking/v1beta1/validators?pagination.limit=2&statuss=BOND_STATUS_BONDED": "statuss (did you mean status?)",
		"/cosmos/staking/v1beta1/validators?status.x=1&statuss=BOND_STATUS_BONDED":         "", // the node reads the query itself
	} {
		expect.Equal(t, explain(t, sdk, proxy.Inquiry{URL: target}).Ignored, want, "ignored parameters of %s", target)
	}
}

func TestExplanationIsComplete(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.reply(200, `{"code":200,"msg":{"validators":[],"pagination":{"next_key":null,"total":"0"}},"error":""}`)
	s.get(t, "/staking/validators?status=3&unknown=1")
	got := explain(t, s.proxy, proxy.Inquiry{URL: "https://anywhere/staking//validators/?status=bonded"})
	got.Memory.Age, got.Why = "", ""
	want := proxy.Explanation{
		Request: "GET /staking//validators/?status=bonded",
		Route:   "validators", Class: "live", Asks: "the node for /staking/validators?status=BOND_STATUS_BONDED",
		Key:    "documented/staking/validators?status=BOND_STATUS_BONDED",
		Policy: &proxy.ExplainedClass{StaleBlocks: 5, ErrorBlocks: 1000, Fresh: "2s", Stale: "15s", StaleIfError: "30m0s"},
		Tip:    228, RedisState: "off", Verdict: "hit", FastLane: "yes, for repeated requests",
		Memory: &proxy.ExplainedEntry{State: "fresh", Height: 228, Status: 200, Bytes: got.Memory.Bytes, ETag: got.Memory.ETag},
	}
	expect.NoDiff(t, got, want, "explanation")
	pinned := explain(t, s.proxy, proxy.Inquiry{URL: "/staking/pool", Height: "100"})
	if pinned.Class != "pinned" || pinned.Key != "documented/staking/pool@100" || pinned.Asks != "the node for /staking/pool at block 100" || !pinned.Policy.Immutable {
		t.Errorf("explanation at a height = %+v, want class pinned, block 100 and an immutable entry", pinned)
	}
}

func TestExplanationNamesReasonAgainstFastLane(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	shared := limits.Shared{Redis: expect.Value(tipredis.New(client, tipredis.Options{}))(t)}
	for want, o := range map[string]web.Options{
		"no: it is switched off": {},
		"no: the limit of addresses is below one request per second, and kept in Redis": {Lane: lane.New(lane.Options{}), SharedLimits: shared, Limits: limits.Limits{Address: limits.Rate{Requests: 59, Per: time.Minute, Burst: 1}}},
		"no: memory has no fresh entry":            {Lane: lane.New(lane.Options{})},
		"no: cookies keep the sessions of clients": {Lane: lane.New(lane.Options{}), Settings: web.Settings{SessionCookie: true}},
	} {
		s := serveChain(t, proxy.Options{Web: o})
		expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: "/staking/pool"}).FastLane, want, "fast lane")
	}
}

func TestExplanationOfAFailureThatIsCachedForAWhile(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Web.Lane = lane.New(lane.Options{}) })
	for target, want := range map[string]string{ // paths of a module that the chain lacks
		"/cosmos/circuit/v1/disable_list":                  "no: its status is 501",
		"/cosmos/circuit/v1/disable_list?x-block-height=1": "no: the URL has a parameter of this server",
	} {
		expect.Equal(t, s.get(t, target).status, http.StatusNotImplemented, "status")
		e := explain(t, s.proxy, proxy.Inquiry{URL: target})
		expect.Equal(t, e.FastLane, want, "fast lane of %s", target)
		if e.Verdict != "hit" || e.Memory.Expires == "" || strings.Contains(e.Why, "never changes") {
			t.Errorf("explanation of %s = %s: %s Expires in %q; want a hit that expires", target, e.Verdict, e.Why, e.Memory.Expires)
		}
	}
}

func TestFastLaneOfLimitedAndUnknownPathsIsExplained(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	limit := limits.Rule{Rate: limits.Rate{Requests: 9, Per: time.Second, Burst: 9}, Patterns: []string{"/mint/*", "/auth/*"}}
	slow := limits.Rule{Rate: limits.Rate{Requests: 9, Per: time.Minute, Burst: 9}, Patterns: []string{"/evmstaking/*"}}
	cost := limits.Rule{Cost: 5, Patterns: []string{paramsPath}}
	s := startChain(t, proxy.Options{Web: web.Options{
		Lane: lane.New(lane.Options{}), SharedLimits: limits.Shared{Redis: expect.Value(tipredis.New(client, tipredis.Options{}))(t)},
		Limits: limits.Limits{Address: limits.Rate{Requests: 900, Per: time.Second, Burst: 900}, Access: []limits.Rule{limit, slow, cost}},
	}})
	s.chain.byTarget["/new/x?"] = recording{Status: 200, Raw: `{"code":200,"msg":{},"error":""}` + "\n"}
	const evm = "/evmstaking/params"
	for target, want := range map[string]string{
		poolPath: "yes, for repeated requests", paramsPath: "yes, for repeated requests", mintPath: "yes, for repeated requests",
		evm:                              "no: the limit of an access rule is below one request per second, and kept in Redis",
		poolPath + "?x-block-height=100": "no: the URL has a parameter of this server", poolPath + "?since=0": "no: the URL has a parameter of this server",
		"/" + poolPath: "yes, for repeated requests",
		"/new/x":       "no: this server does not know the path", "/staking/validators?statuss=3": "no: a parameter is probably a typo",
		"/batch?path=/staking/validators%3Fstatuss=3": "no: a parameter is probably a typo", "/batch?path=" + poolPath: "yes, for repeated requests",
		batchOf(poolPath, mintPath): "yes, for repeated requests", batchOf(evm): "no: access rules limit its paths", batchOf(mintPath, "/auth/params"): "no: access rules limit its paths",
	} {
		s.get(t, target).expect(t, http.StatusOK)
		expect.Equal(t, explain(t, s.proxy, proxy.Inquiry{URL: target}).FastLane, want, "fast lane of %s", target)
	}
	refusal := explain(t, s.proxy, proxy.Inquiry{URL: "/new/x%2fy"}).Refusal
	if refusal == nil || refusal.Status != http.StatusNotFound {
		t.Errorf("refusal of a path that is not passed on = %+v, want 404", refusal)
	}
}

func TestExplanationEqualsRefusalOfInvalidRequest(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}})
		for _, inquiry := range []proxy.Inquiry{
			{URL: "/staking/validators/0x12"},
			{URL: "/staking/validators?status=9"},
			{URL: "/staking/validators?pagination.limit=x"},
			{URL: "/staking/validators?pagination.key=AAA&pagination.offset=1"},
			{URL: "/staking/params", Height: "x"},
			{URL: "/staking/params", Height: "-1"},
			{URL: "/staking/params", Height: "100000"},
			{URL: "/nowhere"},
			{URL: "/staking/params?" + strings.Repeat("x", web.MaxURL)},
		} {
			var headers []string
			if inquiry.Height != "" {
				headers = []string{"X-Block-Height", inquiry.Height}
			}
			before := s.chain.calls()
			e := explain(t, s.proxy, inquiry)
			expect.Equal(t, s.chain.calls(), before, "%s: node requests after the explanation", inquiry.URL)
			got := s.get(t, inquiry.URL, headers...)
			if s.chain.calls() != before { // only the node can refuse it
				if e.Refusal != nil {
					t.Errorf("%s %s: refusal = %+v, want none", shape, inquiry.URL, e.Refusal)
				}
				continue
			}
			expect.NoDiff(t, e.Refusal, &proxy.Refusal{Status: got.status, Body: got.body}, "%s %s: refusal", shape, inquiry.URL)
			expect.Equal(t, e.Verdict, "refused", "%s %s: verdict", shape, inquiry.URL)
		}
	}
	p, _ := newChainProxy(t, proxy.Options{})
	for _, url := range []string{"", "staking/params", "%", "http://[::1"} {
		if _, err := p.Explain(t.Context(), proxy.Inquiry{URL: url}); err == nil {
			t.Errorf("Explain of URL %q: error = nil, want one", url)
		}
	}
}

func TestExplanationOfAListingDescribesItsBody(t *testing.T) {
	p, store := newListProxy(t, listing.Options{})
	e := explain(t, p, proxy.Inquiry{URL: listPath})
	if e.Request != "POST "+listPath || e.Verdict != "miss" || e.Asks != "the store for 20 collections from 0 on by updatedAt, greatest first, where {}" {
		t.Errorf("explanation without a body = %+v, want a miss of the default listing", e)
	}
	body := `{"orderBy":"assetCount","orderDirection":"asc","pagination":{"limit":3,"offset":6},"where":{"minAssetCount":1,"maxAssetCount":9,"collectionAddresses":["` + wow + `"]}}`
	e = explain(t, p, proxy.Inquiry{URL: listPath, Body: body})
	want := `the store for 3 collections from 6 on by assetCount, least first, where {"collectionAddresses":["` + strings.ToLower(wow) + `"],"maxAssetCount":9,"minAssetCount":1}`
	if e.Asks != want || e.Class != "collections" || e.Policy.Fresh != "5s" {
		t.Errorf("explanation = %+v, want class collections and %s", e, want)
	}
	if e = explain(t, p, proxy.Inquiry{URL: listPath, Body: `{"pagination":{"limit":0}}`}); e.Refusal == nil || e.Refusal.Status != http.StatusUnprocessableEntity || !strings.Contains(e.Refusal.Body, "body.pagination.limit") {
		t.Errorf("refusal of limit 0 = %+v, want 422 that names body.pagination.limit", e.Refusal)
	}
	expect.Equal(t, store.calls.Load(), 0, "store requests")
	post := httptest.NewRequest(http.MethodPost, listPath, strings.NewReader("{}"))
	post.Header.Set("X-Api-Key", testKey)
	p.ServeHTTP(httptest.NewRecorder(), post)
	if e = explain(t, p, proxy.Inquiry{URL: listPath}); e.Verdict != "hit" || !strings.Contains(e.Why, "within fresh 5s") {
		t.Errorf("explanation after a request = %+v, want a hit", e)
	}
}

// anySelects reports whether any selection has a key.
func anySelects(all []cache.Selection, key string) bool {
	return slices.ContainsFunc(all, func(sel cache.Selection) bool { return sel.Has(key) })
}

func TestSelectionsHaveTheKeysOfRequests(t *testing.T) {
	targets := map[string]string{
		"validators":            "/staking/validators?status=3",
		"validator":             "/staking/validators/" + val5,
		"validator_delegations": "/staking/validators/" + val5 + "/delegations",
		"delegation":            "/staking/validators/" + val5 + "/delegations/" + del0,
		"delegator_delegations": "/staking/delegations/" + del0Bech32 + "?pagination.limit=5",
		"staking_params":        "/staking/params",
		"collections":           listPath,
	}
	p, _ := newListProxy(t, listing.Options{})
	for route := range targets {
		sel := expect.Value(p.SelectRoute(route))(t)
		for name, target := range targets {
			key := explain(t, p, proxy.Inquiry{URL: target}).Key
			expect.Equal(t, anySelects(sel, key), name == route, "whether route %s selects %s", route, key)
		}
	}
	for _, address := range []string{del0, strings.Replace(strings.ToUpper(del0), "0X", "0x", 1), del0Bech32} {
		sel := expect.Value(p.SelectAddress(address))(t)
		for name, target := range targets {
			key := explain(t, p, proxy.Inquiry{URL: target}).Key
			expect.Equal(t, anySelects(sel, key), name == "delegation" || name == "delegator_delegations", "whether address %s selects %s", address, key)
		}
	}
	for name, want := range map[string]string{"nowhere": `no route is called "nowhere"`, "validatr": `no route is called "validatr"; did you mean validator?`,
		"colections": `no route is called "colections"; did you mean collections?`} {
		if _, err := p.SelectRoute(name); err == nil || err.Error() != want {
			t.Errorf("SelectRoute(%s): error = %v, want %s", name, err, want)
		}
	}
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		p, _ := newChainProxy(t, proxy.Options{Story: story.Options{Shape: shape}})
		if _, err := p.SelectAddress(""); err == nil {
			t.Errorf("%s: SelectAddress of an empty address: error = nil, want one", shape)
		}
		sel := expect.Value(p.SelectAddress(del0Bech32))(t)
		key := explain(t, p, proxy.Inquiry{URL: targets["delegator_delegations"]}).Key
		expect.Equal(t, anySelects(sel, key), true, "%s: whether address %s selects %s", shape, del0Bech32, key)
	}
}
