package proxy_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func all(pattern, text string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

func TestManualShowsEveryOperation(t *testing.T) {
	s := startList(t, listing.Options{})
	_, page := s.send(t, "GET", "/docs", "")
	text := html.UnescapeString(page)
	for _, op := range readDescription(t, s.Config.Handler).operations() {
		for _, want := range []string{`<article id="` + op.id + `"`, op.body["summary"].(string)} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s", op.id, want)
			}
		}
	}
	if strings.Contains(text, "somewhere") || strings.Count(text, "curl 'https://host/") != len(all(`(<article id="[a-z_]+")`, page)) {
		t.Error("not every operation has a command to try")
	}
}

func TestManualDocumentsMinimumBlocks(t *testing.T) {
	s := startList(t, listing.Options{})
	_, page := s.send(t, "GET", "/docs", "")
	for _, name := range []string{"X-Min-Block-Height", "X-Min-Evm-Block", "stream.min_block_height", "stream.min_evm_block"} {
		if !strings.Contains(strings.ReplaceAll(page, "<wbr>", ""), "<code>"+name+"</code>") {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestTotalOfRewardsIsDocumentedAsNullable(t *testing.T) {
	s := startChain(t, proxy.Options{})
	if page := s.get(t, "/docs").body; !strings.Contains(page, `<code>msg.total</code> <span class="type">list of <a href="#schema-DecCoin">DecCoin</a> or null</span>`) {
		t.Error("manual does not document null")
	}
	at := `paths./distribution/delegators/{delegator_address}/rewards.get.responses.200.content.application/json.schema.properties.msg`
	msg := gjson.Get(s.get(t, "/openapi.json").body, at)
	expect.Equal(t, msg.Get("properties.total.type").Raw+msg.Get("required").Raw, `["array","null"]["rewards","total"]`, "type and required members")
}

func TestManualHasNoBrokenLinks(t *testing.T) {
	s := startList(t, listing.Options{})
	_, page := s.send(t, "GET", "/docs", "")
	ids := map[string]bool{}
	for _, id := range all(` id="([^"]*)"`, page) {
		if ids[id] {
			t.Errorf("there are two of %s", id)
		}
		ids[id] = true
	}
	for _, name := range all(`(?:href="#|aria-labelledby=")([^"]*)"`, page) {
		if !ids[name] {
			t.Errorf("there is no %s to go to", name)
		}
	}
}

func TestManualLoadsNoOtherResource(t *testing.T) {
	s := startList(t, listing.Options{})
	res, page := s.send(t, "GET", "/docs", "")
	for _, target := range all(`(?:href|src|action)="([^#"][^"]*)"`, page) {
		if !slices.Contains([]string{"openapi.json", "docs/live", "data:,"}, target) {
			t.Errorf("it refers to %s", target)
		}
	}
	if strings.Count(page, "<script") != 1 || strings.Contains(page, " style=") || strings.Contains(page, "url(") {
		t.Error("page has resources other than one style and one script")
	}
	policy := res.Header.Get("Content-Security-Policy")
	for _, part := range []string{`(?s)<style>(.*)</style>`, `(?s)<script type="module">(.*)</script>`} {
		sum := sha256.Sum256([]byte(all(part, page)[0]))
		if !strings.HasPrefix(policy, "default-src 'none'") || !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) {
			t.Errorf("%s is not what the policy %s lets in", part, policy)
		}
	}
}

func TestManualNamesTheServerOfTheRequest(t *testing.T) {
	s := startChain(t, proxy.Options{})
	got := s.get(t, "/docs")
	if !strings.Contains(html.UnescapeString(got.body), "curl '"+s.URL+"/staking/params'") {
		t.Error("commands name the wrong server")
	}
}

// The simulated chain of the SDK has not all modules, and a few of their things. The node
// itself fails with all proposals as v1beta1, since it cannot show some of them.
func TestSimulatedChainsAnswerEveryRequestOfTheManualAsItIsGiven(t *testing.T) {
	for dialect, least := range map[node.Dialect]int{node.Story: 40, node.Cosmos: 120} {
		d, nodes := simulate(t, dialect, devnet.Options{})
		o := proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: nodes}}
		if dialect == node.Cosmos {
			o.Dialect = node.Cosmos
		}
		p := expect.Value(proxy.New(o))(t)
		answered := 0
		for _, target := range all(`name="target" value="([^"]*)"`, inProcess(p, "/docs", "").Body.String()) {
			target = html.UnescapeString(target)
			if strings.HasPrefix(target, "/live?") {
				continue
			}
			path, query, _ := strings.Cut(target, "?")
			switch got := inProcess(p, path, query); {
			case got.Code == http.StatusOK:
				answered++
			case dialect == node.Story || got.Code != http.StatusNotFound && got.Code != http.StatusNotImplemented && target != "/cosmos/gov/v1beta1/proposals":
				t.Errorf("%s of %s: status %d: %s", target, d.NodeURL(), got.Code, got.Body)
			}
		}
		if answered < least {
			t.Errorf("%s: %d requests are answered, want %d at least", dialect, answered, least)
		}
	}
}

// Some rows of the SDK have the name of a path of Story.
func TestSDKManualUsesPathsOfItsRows(t *testing.T) {
	p, _ := newChainProxy(t, proxy.Options{Dialect: node.Cosmos})
	page := html.UnescapeString(inProcess(p, "/docs", "").Body.String())
	targets := all(`name="target" value="([^"]*)"`, page)
	if len(targets) < 100 {
		t.Fatalf("there are %d targets", len(targets))
	}
	for _, target := range slices.Concat(targets, all(`path=(/[^&]*)&`, page)) {
		if module, _, _ := strings.Cut(target[1:], "/"); !slices.Contains([]string{"cosmos", "ibc", "cosmwasm", "live"}, module) {
			t.Errorf("%s is no path of the chain", target)
		}
	}
}

// Replicas whose pages differ have each a validator of its own.
func TestManualIsTheSameAtEachStart(t *testing.T) {
	first := ""
	for range 5 {
		p, _ := newChainProxy(t, proxy.Options{Dialect: node.Cosmos})
		page := inProcess(p, "/docs", "").Body.String()
		if first == "" {
			first = page
		}
		if page != first {
			t.Fatal("page differs between starts")
		}
	}
}
