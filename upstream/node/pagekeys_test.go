package node

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

const (
	validatorList = "/staking/validators"
	periodList    = "/staking/validators/0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0/delegators/0xa82f5d1f204b382d90ca549b695aedb7fde14817/period_delegations"
)

// storyNodes runs a pool in front of two nodes of one simulated chain. The second reads page keys in base64.
func storyNodes(t *testing.T, o Options) (p *Pool, d *devnet.Devnet, older, newer *devnet.Node) {
	t.Helper()
	d = newDevnet(t, Story, devnet.Options{})
	older, newer = d.Node(), devnettest.AddNode(t, d)
	newer.SetBase64Keys(true)
	for _, n := range []*devnet.Node{older, newer} {
		o.Endpoints = append(o.Endpoints, Endpoint{REST: n.RESTURL(), Comet: n.CometURL()})
	}
	o.BlockInterval = 100 * time.Millisecond
	p = runPool(t, o)
	waitForTip(t, p, d.Height())
	expect.Eventually(t, "both subscriptions", func() bool { h := p.Health(); return h[0].Connected && h[1].Connected })
	return p, d, older, newer
}

// preferNode makes a node the preferred one of the pool.
func preferNode(p *Pool, n *devnet.Node) {
	prefer(p, slices.IndexFunc(p.endpoints(), func(e *endpoint) bool { return e.name == strings.TrimPrefix(n.RESTURL(), "http://") }))
}

func fetchPage(t *testing.T, p *Pool, r Request) (body string, nextKey string) {
	t.Helper()
	a, err := p.Fetch(within(t, time.Minute), r)
	if err != nil || a.Reason != OK {
		t.Fatalf("Fetch of %s?%s with page key %q = %+v, %v; want OK", r.Path, r.Query, r.PageKey, a, err)
	}
	raw := expect.Value(base64.StdEncoding.DecodeString(gjson.GetBytes(a.Body, "msg.pagination.next_key").Str))(t)
	return gjson.GetBytes(a.Body, "msg").Raw, string(raw)
}

// wantSecondPage compares the second page of a list by its page key with the page by its offset.
func wantSecondPage(t *testing.T, p *Pool, n *devnet.Node, path string) {
	t.Helper()
	preferNode(p, n)
	r := Request{Path: path, Query: "pagination.limit=3", Height: AtTip}
	_, r.PageKey = fetchPage(t, p, r)
	got, _ := fetchPage(t, p, r)
	want, _ := fetchPage(t, p, Request{Path: path, Query: "pagination.limit=3&pagination.offset=3", Height: AtTip})
	expect.NoDiff(t, got, want, "second page of %s by key", path)
}

func TestPageKeysAreSentInTheNodesForm(t *testing.T) {
	p, d, older, newer := storyNodes(t, Options{})
	for _, path := range []string{validatorList, periodList} {
		for _, n := range []*devnet.Node{older, newer, older} {
			wantSecondPage(t, p, n, path)
			d.Advance(1)
		}
	}
}

// The key 1003 is also valid base64 of another key.
func TestValidBase64KeyIsSentInTheNodesForm(t *testing.T) {
	p, _, older, newer := storyNodes(t, Options{})
	for _, n := range []*devnet.Node{older, newer} {
		preferNode(p, n)
		got, _ := fetchPage(t, p, Request{Path: periodList, Query: "pagination.limit=1", PageKey: "1003"})
		if want := "1003"; gjson.Get(got, "period_delegation_responses.0.period_delegation.period_delegation_id").Str != want {
			t.Errorf("page of node %s = %s, want it to begin at id %s", n.RESTURL(), got, want)
		}
	}
}

func TestKeyFormFollowsTheRelease(t *testing.T) {
	p, d, older, newer := storyNodes(t, Options{})
	wantSecondPage(t, p, older, validatorList)
	wantSecondPage(t, p, newer, validatorList)

	older.SetBase64Keys(true) // the pool notices when the node refuses a key
	wantSecondPage(t, p, older, validatorList)

	newer.SetBase64Keys(false)
	ended := p.endpoints()[1].blocks.State().Lost
	expect.NoError(t, newer.SetFaults(devnet.Fault{}, devnet.Fault{Outage: devnet.Reset})) // closes its connections
	expect.Eventually(t, "the end of the subscription", func() bool { return p.endpoints()[1].blocks.State().Lost > ended })
	expect.NoError(t, newer.SetFaults(devnet.Fault{}, devnet.Fault{}))
	waitForTip(t, p, d.Height())
	wantSecondPage(t, p, newer, validatorList)
}

// A balancer may move from a node of one release to one of another while connections stay open.
func TestImpossiblePageIsReadAgain(t *testing.T) {
	p, d, _, newer := storyNodes(t, Options{VerbatimKeys: true})
	preferNode(p, newer)
	validator, _, _ := strings.Cut(periodList, "/delegators")
	delegations := validator + "/delegations"
	for _, path := range []string{validatorList, periodList, delegations} {
		for _, form := range []KeyForm{UnknownKeys, Base64Keys} {
			t.Run(path+string(form), func(t *testing.T) {
				newer.SetBase64Keys(true)
				d.Advance(1)
				waitForTip(t, p, d.Height())
				r := Request{Path: path, Query: "pagination.limit=1", Cost: Page, Height: d.Height()}
				e := p.endpoints()[1]
				e.update(func(v *view) { v.keys.tested = time.Time{} })
				expect.Value(e.keyForm(t.Context()))(t)
				_, key := fetchPage(t, p, r)
				want, _ := fetchPage(t, p, Request{Path: path, Query: "pagination.limit=1&pagination.offset=1", Cost: Page, Height: d.Height()})
				newer.SetBase64Keys(false)
				if r.PageKey = key; form != UnknownKeys {
					r.PageKey, r.Keys, r.Query = "", form, withKey(r.Query, form.encode(key))
				}
				a, err := p.Fetch(within(t, time.Minute), r)
				if form != UnknownKeys {
					if err == nil && gjson.GetBytes(a.Body, "msg").Raw != want {
						t.Errorf("page by a key that no node reads = %s, want an error or %s", a.Body, want)
					}
					return
				}
				expect.NoError(t, err)
				expect.Equal(t, gjson.GetBytes(a.Body, "msg").Raw, want, "page")
			})
		}
	}
}

func TestPageThatDoesNotStartAtItsKey(t *testing.T) {
	page := func(next string, delegators ...string) *Answer {
		items := make([]string, len(delegators))
		for i, d := range delegators {
			items[i] = fmt.Sprintf(`{"delegation":{"delegator_address":"0x%x"}}`, d)
		}
		return &Answer{Body: fmt.Appendf(nil, `{"msg":{"delegation_responses":[%s],"pagination":{"next_key":"%s"}}}`, strings.Join(items, ","), base64.StdEncoding.EncodeToString([]byte(next)))}
	}
	for name, test := range map[string]struct {
		query, key string
		height     int64
		page       *Answer
		want       bool
	}{
		"next item":            {"", "bb", 10, page("", "bb"), true},
		"later item":           {"", "bb", 10, page("", "cc"), false},
		"earlier item":         {"", "bb", 10, page("", "aa"), false},
		"no item":              {"", "bb", 10, page(""), false},
		"no item, filter":      {"status=x", "bb", 10, page(""), true},
		"no item, other block": {"", "bb", 11, page(""), true},
		"later, other block":   {"", "bb", 11, page("", "cc"), true},
		"earlier, other block": {"", "bb", 11, page("", "aa"), false},
		"later, other key":     {"", "ab", 10, page("", "bb"), true},
		"reverse, other block": {"pagination.reverse=true", "bb", 11, page("", "aa"), true},
		"reverse, later item":  {"pagination.reverse=true", "bb", 11, page("", "cc"), false},
		"reverse by a number":  {"pagination.reverse=1", "bb", 11, page("", "aa"), true},
		"refusal":              {"", "bb", 10, &Answer{Reason: NotFound}, true},
		"first page":           {"", "", 10, page(""), true},
	} {
		k := newNextKeys()
		k.checkPage(Request{Path: "/list"}, 10, page("bb", "aa"))
		if got := k.checkPage(Request{Path: "/list", Query: test.query, PageKey: test.key}, test.height, test.page); got != test.want {
			t.Errorf("%s: checkPage = %t, want %t", name, got, test.want)
		}
	}
}

func TestOldKeyFormIsTestedAgain(t *testing.T) {
	v := view{keys: pageKeys{form: RawKeys, tested: time.Now().Add(-2 * keyFormFor)}}
	expect.Equal(t, v.currentKeys(), UnknownKeys, "form after %s", 2*keyFormFor)
}

// A list of validators with one page has no next key to test the form with.
func TestKeyFormIsFoundWithOneValidator(t *testing.T) {
	for _, form := range []KeyForm{RawKeys, Base64Keys} {
		var sent atomic.Value
		p := restPool(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			q, _ := url.ParseQuery(r.URL.RawQuery)
			if _, err := base64.StdEncoding.DecodeString(q.Get("pagination.key")); err != nil && form == Base64Keys {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"code":400,"msg":null,"error":"illegal base64 data at input byte 0"}`)
				return
			}
			if r.URL.Path != validatorList {
				sent.Store(q.Get("pagination.key"))
			}
			fmt.Fprint(w, `{"code":200,"msg":{"validators":[{"operator_address":"0x01"}],"pagination":{}},"error":""}`)
		})
		expect.Value(p.Fetch(within(t, time.Minute), Request{Path: "/x", PageKey: "\x14key"}))(t)
		if got, want := sent.Load(), form.encode("\x14key"); got != want {
			t.Errorf("key sent = %q, want %q", got, want)
		}
	}
}

func TestNodeWithUnknownKeyFormGetsNoPageRequest(t *testing.T) {
	var requests, pages atomic.Int32
	p := restPool(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != validatorList {
			pages.Add(1)
		}
		requests.Add(1)
		fmt.Fprint(w, `{"code":200,"msg":{"validators":[],"pagination":{"next_key":"FA=="}},"error":""}`)
	})
	for range 10 {
		if a, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", PageKey: "\x14key"}); err == nil {
			t.Fatalf("Fetch = %s, want an error", a.Body)
		}
	}
	if got := requests.Load(); got > 8 || pages.Load() > 0 { // a test takes four requests
		t.Errorf("requests = %d, for pages = %d; want at most two tests, and no page", got, pages.Load())
	}
}

func TestVerbatimPageKeyGoesToNodeOfItsForm(t *testing.T) {
	p, d, older, newer := storyNodes(t, Options{VerbatimKeys: true})
	expect.Eventually(t, "both forms", func() bool { return p.MixedKeys() })
	forms := []KeyForm{p.Health()[0].PageKeys, p.Health()[1].PageKeys}
	if want := []KeyForm{RawKeys, Base64Keys}; !slices.Equal(forms, want) {
		t.Errorf("forms = %v, want %v", forms, want)
	}
	_, raw := fetchPage(t, p, Request{Path: validatorList, Query: "pagination.limit=3", Height: AtTip})
	want, _ := fetchPage(t, p, Request{Path: validatorList, Query: "pagination.limit=3&pagination.offset=3", Height: AtTip})
	for range 4 {
		for form, other := range map[KeyForm]*devnet.Node{RawKeys: newer, Base64Keys: older} {
			preferNode(p, other)
			r := Request{Path: validatorList, Query: withKey("pagination.limit=3", form.encode(raw)), Keys: form, Height: AtTip}
			if got, _ := fetchPage(t, p, r); got != want {
				t.Errorf("page by a key in form %s = %s, want %s", form, got, want)
			}
		}
		d.Advance(1)
		waitForTip(t, p, d.Height())
		want, _ = fetchPage(t, p, Request{Path: validatorList, Query: "pagination.limit=3&pagination.offset=3", Height: AtTip})
	}

	expect.NoError(t, newer.SetFaults(devnet.Fault{Outage: devnet.Refuse}, devnet.Fault{}))
	r := Request{Path: validatorList, Query: withKey("pagination.limit=3", Base64Keys.encode(raw)), Keys: Base64Keys, Height: AtTip}
	if a, err := p.Fetch(within(t, 10*time.Second), r); err == nil {
		t.Errorf("Fetch = %s without a node of the form, want an error", a.Body)
	}
}

func TestVerbatimPageKeyGoesToNodeOfItsFormWhileItsConfigurationChanges(t *testing.T) {
	p, _, older, newer := storyNodes(t, Options{VerbatimKeys: true})
	expect.Eventually(t, "both forms", func() bool { return p.MixedKeys() })
	_, raw := fetchPage(t, p, Request{Path: validatorList, Query: "pagination.limit=3", Height: AtTip})
	want, _ := fetchPage(t, p, Request{Path: validatorList, Query: "pagination.limit=3&pagination.offset=3", Height: AtTip})
	changed := Endpoint{REST: "http://" + porttest.Address(t), Comet: newer.CometURL()}
	expect.NoError(t, p.SetEndpoints([]Endpoint{p.endpoints()[0].configured, changed}))
	preferNode(p, older)
	r := Request{Path: validatorList, Query: withKey("pagination.limit=3", Base64Keys.encode(raw)), Keys: Base64Keys, Height: AtTip}
	if got, _ := fetchPage(t, p, r); got != want {
		t.Errorf("page by a key in form %s = %s, want %s", Base64Keys, got, want)
	}
	expect.Equal(t, p.MixedKeys(), true, "MixedKeys")
}

func TestNodeKeepsTheFormOfItsPageKeysWhenAHeaderChanges(t *testing.T) {
	p, _, _, _ := storyNodes(t, Options{VerbatimKeys: true})
	expect.Eventually(t, "both forms", func() bool { return p.MixedKeys() })
	changed := p.endpoints()[1].configured
	changed.Headers = http.Header{"X-Key": {"new"}}
	expect.NoError(t, p.SetEndpoints([]Endpoint{p.endpoints()[0].configured, changed}))
	expect.Equal(t, p.Health()[1].PageKeys, Base64Keys, "form of the changed node")
}
