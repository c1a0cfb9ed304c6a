package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

const page = "https://app.example"

func TestPreflightsReachNoUpstream(t *testing.T) {
	tests := []struct {
		name, path, origin string
		allowed            bool
	}{
		{"of the chain's interface", "/staking/params", page, true},
		{"of the collections, without a key", listPath, page, true},
		{"of what is not there", "/nowhere", page, true},
		{"of a page that may not", listPath, "https://evil.example", false},
	}
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.CORSOrigins = []string{page} })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, body := s.send(t, http.MethodOptions, tt.path, "", "X-Api-Key", "", "Origin", tt.origin,
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,x-api-key")
			if res.StatusCode != http.StatusNoContent || body != "" {
				t.Errorf("status %d: %s", res.StatusCode, body)
			}
			want := map[string]string{"Vary": "Origin", "Allow": "", "Access-Control-Allow-Credentials": ""}
			for name, value := range map[string]string{
				"Access-Control-Allow-Origin":  page,
				"Access-Control-Allow-Methods": "GET, HEAD, POST, QUERY",
				"Access-Control-Allow-Headers": "X-Api-Key, Content-Type, X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, X-Session, If-None-Match, X-Request-Id, traceparent, X-Grpc-Web, X-User-Agent, Grpc-Timeout, Authorization, Cache-Control, Last-Event-Id, Pragma, X-Requested-With, X-Server-Time, X-Cosmos-Block-Height",
				"Access-Control-Max-Age":       "7200",
			} {
				if want[name] = ""; tt.allowed {
					want[name] = value
				}
			}
			for name, value := range want {
				wantHeader(t, res, name, value)
			}
		})
	}
	expect.Equal(t, s.store.calls.Load(), 0, "store requests")
}

func TestResponsesVaryByOriginOnlyWhereOriginsAreListed(t *testing.T) {
	for origins, want := range map[string]bool{"": false, "none": false, page: true} {
		s := startChain(t, proxy.Options{Web: web.Options{CORSOrigins: strings.Fields(origins)}})
		for range 2 { // from the node and from memory
			if got := s.get(t, anyPath, "Origin", page).header.Get("Vary"); strings.Contains(got, "Origin") != want {
				t.Errorf("origins %q: Vary = %s, want Origin in it: %t", origins, got, want)
			}
		}
	}
}
