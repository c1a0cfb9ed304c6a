package proxy_test

import (
	"go/format"
	"html"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

func manualOf(t *testing.T, o proxy.Options) string {
	p, _ := newChainProxy(t, o)
	return html.UnescapeString(inProcess(p, "/docs", "").Body.String())
}

func TestManualOpensWithOneRequestAndItsAnswer(t *testing.T) {
	for want, o := range map[string]proxy.Options{"/staking/pool": {}, "/cosmos/staking/v1beta1/pool": {Dialect: node.Cosmos}} {
		header, _, _ := strings.Cut(manualOf(t, o), "</header>")
		_, header, _ = strings.Cut(header, "</h1>")
		for _, part := range []string{want + "'", "X-Block-Height: ", "bonded_tokens"} {
			if !strings.Contains(header, part) {
				t.Errorf("%s: no %q at the beginning", want, part)
			}
		}
		if words := len(strings.Fields(strings.Join(all(`<p>([^<]*)`, header), " "))); words > 40 {
			t.Errorf("%s: %d words of prose before the first operation", want, words)
		}
	}
}

func TestEachOperationHasSamplesInFourLanguages(t *testing.T) {
	for _, o := range []proxy.Options{{}, {Dialect: node.Cosmos}} {
		page := manualOf(t, o)
		for _, article := range strings.Split(page, "<article ")[2:] { // the first tells of all answers
			article, _, _ = strings.Cut(article, "</article>")
			if languages := all(`data-language="(\w+)"`, article); strings.Contains(article, `class="method"`) && !slices.Equal(languages, []string{"curl", "TypeScript", "Go", "Python"}) {
				t.Errorf("samples in %v: %.60s", languages, article)
			}
		}
		for _, source := range all(`(?s)<figcaption>Go</figcaption><pre[^>]*><code>(.*?)</code>`, page) {
			if formatted, err := format.Source([]byte(source)); err != nil || string(formatted) != source+"\n" {
				t.Errorf("%v, not as gofmt has it: %s", err, source)
			}
		}
	}
}

func TestManualNamesTheOtherInterfacesThatAreServed(t *testing.T) {
	if page := manualOf(t, proxy.Options{}); strings.Contains(page, "Other APIs") {
		t.Error("document has APIs that are not served")
	}
	page := manualOf(t, proxy.Options{Web: web.Options{PublicURL: "http://api.example"}, Listeners: docs.Listeners{RPC: "0.0.0.0:8082", GRPC: "127.0.0.1:8083"}, GRPC: &grpc.Options{}, Dialect: node.Cosmos})
	for _, want := range []string{"StargateClient.connect('http://api.example:8082')", "grpcurl -plaintext api.example:8083 ", "application/grpc-web+proto", `id="rpc"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, source := range all(`(?s)<figcaption>Go</figcaption><pre[^>]*><code>(.*?)</code>`, page) {
		if _, err := format.Source([]byte(source)); err != nil {
			t.Errorf("%v: %s", err, source)
		}
	}
}
