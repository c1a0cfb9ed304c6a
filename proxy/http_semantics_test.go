package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUnservedPathsAndMethodsAreRefusedInTheEnvelope(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{RefuseUnknown: true}})
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
	expect.Equal(t, s.chain.calls(), 0, "node requests")
}

func TestAddressAloneLeadsToTheManual(t *testing.T) {
	got := startChain(t, proxy.Options{}).get(t, "/")
	if got.status != http.StatusOK || !strings.Contains(got.body, "<title>tipcache") { // the client has followed
		t.Errorf("%d %.200s", got.status, got.body)
	}
	node := startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}})
	node.get(t, "/").wants(t, http.StatusNotFound)
}

func short(path string) string {
	if len(path) <= 64 {
		return path
	}
	return path[:61] + "…"
}

func TestRoutesOfUnknownNamesAreNotConfigured(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	if _, err := proxy.New(proxy.Options{Cache: c, Chain: story.Options{Nodes: newFakeChain(t), Routes: map[string]cache.Policy{"nope": {}}}}); err == nil {
		t.Error("error = nil, want one")
	}
}

// counted lists a counter's labels and values.
func counted(t *testing.T, g prometheus.Gatherer, name string) (list []string) {
	t.Helper()
	families := expect.Value(g.Gather())(t)
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
