package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestAClientThatHasTheAnswerIsToldSo(t *testing.T) {
	s := startChain(t, proxy.Options{})
	first := s.get(t, anyPath)
	tag := first.header.Get("Etag")
	if !strings.HasPrefix(tag, `"`) {
		t.Fatalf("the ETag %s is not a strong one", tag)
	}
	tests := []struct {
		name, sent string
		status     int
	}{
		{"its tag", tag, 304},
		{"its tag, weakened on the way", "W/" + tag, 304},
		{"its tag among others", `"x", ` + tag + `,"y"`, 304},
		{"any tag", "*", 304},
		{"another tag", `"x"`, 200},
		{"nonsense", "x", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.get(t, anyPath, "If-None-Match", tt.sent)
			if got.status != tt.status || tt.status == 304 && got.body != "" {
				t.Errorf("status %d with %q", got.status, got.body)
			}
			for _, name := range []string{"Etag", "Cache-Control", "X-Block-Height", "Cache-Status", "Age"} {
				if got.header.Get(name) == "" {
					t.Errorf("no %s", name)
				}
			}
		})
	}
	s.chain.grow(1)
	if got := s.get(t, anyPath, "If-None-Match", tag); got.status != 304 {
		t.Errorf("status %d: a block that changes nothing changes no tag", got.status)
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for _, target := range []string{anyPath, "/staking/validators/nope", "/nowhere"} {
		get, head := s.get(t, target, "X-Request-Id", "same"), s.do(t, http.MethodHead, target, "", "X-Request-Id", "same")
		if head.body != "" || head.status != get.status {
			t.Errorf("%s: status %d with %q, want %d", target, head.status, head.body, get.status)
		}
		for _, h := range []http.Header{get.header, head.header} {
			h.Del("Date")
			h.Del("Age")
			h.Del("Cache-Status")
		}
		if diff := cmp.Diff(get.header, head.header); diff != "" {
			t.Errorf("%s: headers (-GET +HEAD):\n%s", target, diff)
		}
	}
}

func TestWhatIsNotServedIsSaidInTheEnvelope(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{RefuseUnknown: true}})
	for path, meant := range map[string]string{
		"/nowhere": "", "/cosmos/staking/v1beta1/params": "", "/staking/../auth/params": "", "/docs/" + strings.Repeat("x", 200): "",
		"/Staking/params":                          "/staking/params",
		"/staking/parms":                           "/staking/params",
		"/staking/validatr/" + val5:                "/staking/validators/{validator_addr}",
		"/staking/validators/" + val5 + "/nothing": "/staking/validators/{validator_addr}/delegations",
	} {
		if meant != "" {
			meant = "; did you mean " + meant + "?"
		}
		s.get(t, path).refuses(t, 404, `{"code":404,"msg":{},"error":"no such path: `+short(path)+meant+`"}`+"\n")
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"} {
		got := s.do(t, method, "/staking/params", "")
		got.refuses(t, 405, `{"code":405,"msg":{},"error":"the method `+method+` is not served here"}`+"\n")
		got.has(t, "Allow", "GET, HEAD")
	}
	s.get(t, anyPath+"?"+strings.Repeat("x", web.MaxURL)).refuses(t, 414, `{"code":414,"msg":{},"error":"the request target is longer than 8192 bytes"}`+"\n")
	if n := s.chain.calls(); n > 0 {
		t.Errorf("the node was asked %d times", n)
	}
}

func TestTheAddressAloneLeadsToTheManual(t *testing.T) {
	got := startChain(t, proxy.Options{}).get(t, "/")
	if got.status != http.StatusOK || !strings.Contains(got.body, "<title>tipcache") { // the client has followed
		t.Errorf("%d %.200s", got.status, got.body)
	}
	node := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	if got := node.get(t, "/"); got.status != http.StatusNotFound {
		t.Errorf("in the node's shape, which has nothing there: %d", got.status)
	}
}

// A header counts with its name and its value, up to the limit itself.
func TestLargeRequestHeadersAreRefused(t *testing.T) {
	const limit = web.MaxHeader
	p, chain := newChainProxy(t, proxy.Options{})
	for size, status := range map[int]int{limit: http.StatusOK, limit + 1: http.StatusRequestHeaderFieldsTooLarge} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, anyPath, nil)
		r.Header = http.Header{"X-Padding": {strings.Repeat("x", size-len("X-Padding"))}}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("status %d for %d bytes of headers, want %d: %s", w.Code, size, status, w.Body)
		}
	}
	if n := chain.calls(); n != 1 {
		t.Errorf("the node was asked %d times, want once", n)
	}
}

func short(path string) string {
	if len(path) <= 64 {
		return path
	}
	return path[:61] + "…"
}

func TestRequestIDs(t *testing.T) {
	s := startChain(t, proxy.Options{})
	tests := []struct {
		name, sent string
		kept       bool
	}{
		{"a client's own is kept", "8b2f-41.c_9:A", true},
		{"one too long is replaced", strings.Repeat("x", 65), false},
		{"one that could forge a log is replaced", "a b", false},
		{"an empty one is replaced", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.get(t, anyPath, "X-Request-Id", tt.sent).header.Get("X-Request-Id")
			if got == "" || (got == tt.sent) != tt.kept {
				t.Errorf("answered with %q", got)
			}
		})
	}
}

var lifetime = regexp.MustCompile(`ttl=\d+`)

func TestCacheHeadersTellTheTruth(t *testing.T) {
	slow := cache.Policy{FreshBlocks: 1, StaleBlocks: 3, ErrorBlocks: 100, Fresh: time.Minute, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}
	s := startChain(t, proxy.Options{Chain: chain.Options{Routes: map[string]cache.Policy{"pool": slow}}})
	s.chain.tip.Interval = 1000 * time.Second // far from the edge of a second's rounding
	ttl := func(e exchange) string {
		return lifetime.ReplaceAllStringFunc(e.header.Get("Cache-Status"), func(exact string) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(exact, "ttl="))
			return fmt.Sprintf("ttl=~%d", (n+100)/100*100) // a little has always passed
		})
	}
	steps := []struct {
		name           string
		blocks         int64
		status, height string
	}{
		{"the first caller's answer comes from the node", 0, "tipcache; fwd=uri-miss; stored; ttl=~2000", "228"},
		{"the second's from memory", 0, `tipcache; hit; ttl=~2000; detail="memory"`, "228"},
		{"a block later it is still fresh", 1, `tipcache; hit; ttl=~1000; detail="memory"`, "228"},
		{"then the node is asked again", 1, `tipcache; fwd=stale; stored; ttl=~2000`, "230"},
	}
	for _, step := range steps {
		s.chain.grow(step.blocks)
		got := s.get(t, anyPath)
		if diff := cmp.Diff(step.status, ttl(got)); diff != "" {
			t.Errorf("%s: Cache-Status (-want +got):\n%s", step.name, diff)
		}
		got.has(t, "X-Block-Height", step.height)
	}
}

func TestRoutesOfUnknownNamesAreNotConfigured(t *testing.T) {
	c, err := cache.New(cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := proxy.New(proxy.Options{Cache: c, Chain: chain.Options{Nodes: newFakeChain(t), Routes: map[string]cache.Policy{"nope": {}}}}); err == nil {
		t.Error("no error")
	}
}

func TestMetricsCountEveryRequest(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	s.get(t, anyPath)
	s.get(t, anyPath)
	s.get(t, anyPath, "X-Block-Height", "5")
	s.get(t, "/nowhere")
	s.do(t, "FOO", anyPath, "")
	s.chain.does(func(node.Request) (*node.Answer, error) { return nil, cache.ErrOverloaded })
	s.get(t, "/mint/params")
	want := []string{
		`fault:"" method:"GET" outcome:"hit" route:"pool" status:"200" 1`,
		`fault:"" method:"GET" outcome:"miss" route:"pool" status:"200" 2`,
		`fault:"" method:"GET" outcome:"refused" route:"other" status:"404" 1`,
		`fault:"" method:"other" outcome:"refused" route:"none" status:"405" 1`,
		`fault:"server" method:"GET" outcome:"failed" route:"mint_params" status:"503" 1`,
	}
	if diff := cmp.Diff(want, counted(t, registry, "tipcache_proxy_requests_total")); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// counted lists a counter's labels and values.
func counted(t *testing.T, g prometheus.Gatherer, name string) (list []string) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			line := ""
			for _, label := range m.GetLabel() {
				line += label.GetName() + ":" + strconv.Quote(label.GetValue()) + " "
			}
			list = append(list, line+strconv.FormatFloat(m.GetCounter().GetValue()+m.GetGauge().GetValue(), 'f', -1, 64))
		}
	}
	return list
}
