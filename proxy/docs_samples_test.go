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
