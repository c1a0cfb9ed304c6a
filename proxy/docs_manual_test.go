package proxy_test

import (
	"crypto/sha256"
	"encoding/base64"
	"go/format"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// all returns the first group of each match.
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
	for _, op := range readContract(t, s.Config.Handler).operations() {
		for _, want := range []string{`<article id="` + op.id + `"`, op.body["summary"].(string)} {
			if !strings.Contains(text, want) {
				t.Errorf("manual has no %s for %s", want, op.id)
			}
		}
	}
	expect.Equal(t, strings.Count(text, "curl 'https://host/"), len(all(`(<article id="[a-z_]+")`, page)), "curl commands, one for each operation")
}

func TestDocumentsDescribeRowsOfTheOperator(t *testing.T) {
	rows := []dialect.Row{
		expect.Value(cosmos.ParseRow("prices /oracle/{path=**} never cheap *"))(t),
		expect.Value(cosmos.ParseRow("shares /x/v1/pools/{poolId}/{pool2}/shares live cheap"))(t),
	}
	for name, o := range map[string]proxy.Options{"Story": {}, "the SDK": {Dialect: node.Cosmos}} {
		o.Rows = rows
		p, _ := newChainProxy(t, o)
		d, page := readContract(t, p), html.UnescapeString(serveGET(p, "/docs", "").Body.String())
		for id, want := range map[string][]string{"prices": {"path"}, "shares": {"poolId", "pool2"}} {
			op := d.operation(t, id)
			var got []string
			for _, parameter := range op.body["parameters"].([]any) {
				if d.at(parameter, "in") == "path" {
					got = append(got, d.at(parameter, "name").(string))
				}
			}
			expect.NoDiff(t, got, want, "%s: path parameters of %s", name, id)
			expect.Contains(t, page, `<article id="`+id+`"`, "%s: manual", name)
		}
		expect.Equal(t, d.operation(t, "shares").path, "/x/v1/pools/{poolId}/{pool2}/shares", "%s: path of shares", name)
	}
}

func TestDocumentsDescribeOnlyTheRowThatServesAPath(t *testing.T) {
	for name, tt := range map[string]struct {
		o   proxy.Options
		row string
	}{
		"Story, same name":    {row: "pool /staking/pool params cheap"},
		"Story, another name": {row: "own_pool /staking/pool params cheap"},
		"SDK, same name":      {proxy.Options{Dialect: node.Cosmos}, "staking_pool /cosmos/staking/v1beta1/pool params cheap"},
		"SDK, another name":   {proxy.Options{Dialect: node.Cosmos}, "own_pool /cosmos/staking/v1beta1/pool params cheap"},
	} {
		t.Run(name, func(t *testing.T) {
			row := expect.Value(cosmos.ParseRow(tt.row))(t)
			tt.o.Rows = []dialect.Row{row}
			p, _ := newChainProxy(t, tt.o)
			d, page := readContract(t, p), html.UnescapeString(serveGET(p, "/docs", "").Body.String())
			expect.Equal(t, d.operation(t, row.Name).path, row.Pattern, "path of %s", row.Name)
			expect.Equal(t, strings.Count(page, `<article id="`+row.Name+`"`), 1, "sections of %s in the manual", row.Name)
		})
	}
}

func TestDocumentPromisesPagesOfOneBlockOnlyInTheDocumentedShape(t *testing.T) {
	for name, tt := range map[string]struct {
		o    proxy.Options
		want bool
	}{
		"documented": {want: true},
		"node":       {o: proxy.Options{Story: story.Options{Shape: story.Node}}},
		"SDK":        {o: proxy.Options{Dialect: node.Cosmos}},
	} {
		p, _ := newChainProxy(t, tt.o)
		text := gjson.Get(serveGET(p, "/openapi.json", "").Body.String(), "info.description").String()
		expect.Equal(t, strings.Contains(text, "all pages are read at the block of the first page"), tt.want, "%s: promise of one block", name)
		expect.Equal(t, strings.Contains(text, "Pages of a list are read at the newest block."), !tt.want, "%s: pages at the newest block", name)
	}
}

func TestManualDocumentsMinimumBlocks(t *testing.T) {
	s := startList(t, listing.Options{})
	_, page := s.send(t, "GET", "/docs", "")
	for _, name := range []string{"X-Min-Block-Height", "X-Min-Evm-Block", "stream.min_block_height", "stream.min_evm_block"} {
		if !strings.Contains(strings.ReplaceAll(page, "<wbr>", ""), "<code>"+name+"</code>") {
			t.Errorf("manual has no %s", name)
		}
	}
}

func TestTotalOfRewardsIsDocumentedAsNullable(t *testing.T) {
	s := startChain(t, proxy.Options{})
	if page := s.get(t, "/docs").body; !strings.Contains(page, `<code>msg.total</code> <span class="type">list of <a href="#schema-DecCoin">DecCoin</a> or null</span>`) {
		t.Error("type of msg.total in the manual has no null")
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
			t.Errorf("id %s occurs twice, want it once", id)
		}
		ids[id] = true
	}
	for _, name := range all(`(?:href="#|aria-labelledby=")([^"]*)"`, page) {
		if !ids[name] {
			t.Errorf("link to #%s has no target", name)
		}
	}
}

func TestManualLoadsNoOtherResource(t *testing.T) {
	s := startList(t, listing.Options{})
	res, page := s.send(t, "GET", "/docs", "")
	for _, target := range all(`(?:href|src|action)="([^#"][^"]*)"`, page) {
		if !slices.Contains([]string{"openapi.json", "docs/live", "data:,"}, target) {
			t.Errorf("manual refers to %s, want no other resource", target)
		}
	}
	if strings.Count(page, "<script") != 1 || strings.Contains(page, " style=") || strings.Contains(page, "url(") {
		t.Error("manual has resources other than one style and one script")
	}
	policy := res.Header.Get("Content-Security-Policy")
	for _, part := range []string{`(?s)<style>(.*)</style>`, `(?s)<script type="module">(.*)</script>`} {
		sum := sha256.Sum256([]byte(all(part, page)[0]))
		if !strings.HasPrefix(policy, "default-src 'none'") || !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) {
			t.Errorf("Content-Security-Policy = %s, want it to allow only %s", policy, part)
		}
	}
}

// The simulated SDK chain lacks some modules and objects. Nodes cannot list all proposals as v1beta1.
func TestSimulatedChainsAnswerEveryRequestInTheManual(t *testing.T) {
	for dialect, least := range map[node.Dialect]int{node.Story: 40, node.Cosmos: 120} {
		d, nodes := simulate(t, dialect, devnet.Options{}, nodeTimeout)
		p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: nodes}, Dialect: dialect}))(t)
		answered := 0
		for _, target := range all(`name="target" value="([^"]*)"`, serveGET(p, "/docs", "").Body.String()) {
			target = html.UnescapeString(target)
			if strings.HasPrefix(target, "/live?") {
				continue
			}
			path, query, _ := strings.Cut(target, "?")
			switch got := serveGET(p, path, query); {
			case got.Code == http.StatusOK:
				answered++
			case dialect == node.Story || got.Code != http.StatusNotFound && got.Code != http.StatusNotImplemented && target != "/cosmos/gov/v1beta1/proposals":
				t.Errorf("%s of %s = %d %s, want 200", target, d.NodeURL(), got.Code, got.Body)
			}
		}
		if answered < least {
			t.Errorf("%s: requests with status 200 = %d, want at least %d", dialect, answered, least)
		}
	}
}

// Some SDK rows have the same name as a Story row.
func TestSDKManualUsesPathsOfItsRows(t *testing.T) {
	page := manualText(t, proxy.Options{Dialect: node.Cosmos})
	targets := all(`name="target" value="([^"]*)"`, page)
	if len(targets) < 100 {
		t.Fatalf("targets in the manual = %d, want at least 100", len(targets))
	}
	for _, target := range slices.Concat(targets, all(`path=(/[^&]*)&`, page)) {
		if module, _, _ := strings.Cut(target[1:], "/"); !slices.Contains([]string{"cosmos", "ibc", "cosmwasm", "live"}, module) {
			t.Errorf("target in the manual = %s, want a path of the SDK", target)
		}
	}
}

// Replicas must send the same ETag.
func TestManualIsTheSameAtEachStart(t *testing.T) {
	first := manualText(t, proxy.Options{Dialect: node.Cosmos})
	for range 4 {
		if manualText(t, proxy.Options{Dialect: node.Cosmos}) != first {
			t.Fatal("manual differs between two starts")
		}
	}
}

// manualText returns the manual as text.
func manualText(t *testing.T, o proxy.Options) string {
	t.Helper()
	p, _ := newChainProxy(t, o)
	return html.UnescapeString(serveGET(p, "/docs", "").Body.String())
}

// goSamples returns the Go samples of the manual.
func goSamples(page string) []string {
	return all(`(?s)<figcaption>Go</figcaption><pre[^>]*><code>(.*?)</code>`, page)
}

func TestManualBeginsWithOneRequestAndItsResponse(t *testing.T) {
	for want, o := range map[string]proxy.Options{"/staking/pool": {}, "/cosmos/staking/v1beta1/pool": {Dialect: node.Cosmos}} {
		header, _, _ := strings.Cut(manualText(t, o), "</header>")
		_, header, _ = strings.Cut(header, "</h1>")
		for _, part := range []string{want + "'", "X-Block-Height: ", "bonded_tokens"} {
			if !strings.Contains(header, part) {
				t.Errorf("%s: beginning of the manual has no %q", want, part)
			}
		}
		if words := len(strings.Fields(strings.Join(all(`<p>([^<]*)`, header), " "))); words > 40 {
			t.Errorf("%s: words before the first operation = %d, want at most 40", want, words)
		}
	}
}

func TestEachOperationHasSamplesInFourLanguages(t *testing.T) {
	for _, o := range []proxy.Options{{}, {Dialect: node.Cosmos}} {
		page := manualText(t, o)
		for _, article := range strings.Split(page, "<article ")[2:] { // the first describes all responses
			article, _, _ = strings.Cut(article, "</article>")
			if languages := all(`data-language="(\w+)"`, article); strings.Contains(article, `class="method"`) && !slices.Equal(languages, []string{"curl", "TypeScript", "Go", "Python"}) {
				t.Errorf("languages of samples = %v, want curl, TypeScript, Go and Python: %.60s", languages, article)
			}
		}
		for _, source := range goSamples(page) {
			if formatted, err := format.Source([]byte(source)); err != nil || string(formatted) != source+"\n" {
				t.Errorf("sample %s\nis not formatted with gofmt: %v", source, err)
			}
		}
	}
}

var exampleTarget = regexp.MustCompile(`name="target" value="([^"?]*)`)

func TestExamplesOfSDKPathsHaveAllVariables(t *testing.T) {
	targets := exampleTarget.FindAllStringSubmatch(manualText(t, proxy.Options{Dialect: node.Cosmos}), -1)
	if len(targets) < 100 {
		t.Errorf("examples = %d, want one per path", len(targets))
	}
	for _, target := range targets {
		if strings.Contains(target[1], "//") || strings.HasSuffix(target[1], "/") {
			t.Errorf("example %q lacks a variable: add a value to proxy/docs/sdk.json", target[1])
		}
	}
}

func TestManualDescribesOtherAPIsIfServed(t *testing.T) {
	if page := manualText(t, proxy.Options{}); strings.Contains(page, "Other APIs") {
		t.Error("manual describes other APIs, want none if they are not served")
	}
	page := manualText(t, proxy.Options{Web: web.Options{PublicURL: "http://api.example"}, Listeners: docs.Listeners{RPC: "0.0.0.0:8082", GRPC: "127.0.0.1:8083"}, GRPC: &grpc.Options{}, Dialect: node.Cosmos})
	for _, want := range []string{"StargateClient.connect('http://api.example:8082')", "grpcurl -plaintext api.example:8083 ", "application/grpc-web+proto", `id="rpc"`} {
		if !strings.Contains(page, want) {
			t.Errorf("manual has no %q", want)
		}
	}
	secure := manualText(t, proxy.Options{Web: web.Options{PublicURL: "https://api.example"}, Listeners: docs.Listeners{RPC: ":8082", GRPC: ":8083", TLS: true}, Dialect: node.Cosmos})
	for _, want := range []string{"connect('https://api.example:8082')", "curl 'https://api.example:8082'", `http.New("https://api.example:8082"`, "grpcurl api.example:8083 ", "credentials.NewTLS(nil)"} {
		if !strings.Contains(secure, want) {
			t.Errorf("manual of listeners with TLS has no %q", want)
		}
	}
	if strings.Contains(secure, "http://api.example") || strings.Contains(secure, "insecure") {
		t.Error("manual of listeners with TLS has commands without TLS")
	}
	for _, source := range append(goSamples(page), goSamples(secure)...) {
		if _, err := format.Source([]byte(source)); err != nil {
			t.Errorf("Go sample: %v: %s", err, source)
		}
	}
}
