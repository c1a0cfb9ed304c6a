package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUnknownPathsAndMethodsAreRefusedInTheEnvelope(t *testing.T) {
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
		s.get(t, path).expectRefusal(t, 404, `{"code":404,"msg":{},"error":"no such path: `+short(path)+meant+`"}`+"\n")
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"} {
		got := s.do(t, method, "/staking/params", "")
		got.expectRefusal(t, 405, `{"code":405,"msg":{},"error":"the method `+method+` is not served here"}`+"\n")
		got.expectHeader(t, "Allow", "GET, HEAD")
	}
	s.get(t, anyPath+"?"+strings.Repeat("x", web.MaxURL)).expectRefusal(t, 414, `{"code":414,"msg":{},"error":"the request target is longer than 8192 bytes"}`+"\n")
	expect.Equal(t, s.chain.calls(), 0, "node requests")
}

func TestRootRedirectsToTheManual(t *testing.T) {
	startChain(t, proxy.Options{}).get(t, "/").expect(t, http.StatusOK, "<title>tipcache") // after the redirect
	startChain(t, proxy.Options{Chain: story.Options{Shape: story.Node}}).get(t, "/").expect(t, http.StatusNotFound)
}

// short abbreviates a path as errors do.
func short(path string) string {
	if len(path) <= 64 {
		return path
	}
	return path[:61] + "…"
}
