package proxy_test

import (
	"net/http"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

const page = "https://app.example"

func TestPreflightsAreAnsweredWithoutUpstream(t *testing.T) {
	tests := []struct {
		name, path, origin string
		allowed            bool
	}{
		{"a path of the chain", "/staking/params", page, true},
		{"the listing, without a key", listPath, page, true},
		{"an unknown path", "/nowhere", page, true},
		{"an origin that is not listed", listPath, "https://evil.example", false},
	}
	s := startList(t, listing.Options{}, func(o *proxy.Options) { o.Web.CORSOrigins = []string{page} })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, body := s.send(t, http.MethodOptions, tt.path, "", "X-Api-Key", "", "Origin", tt.origin,
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,x-api-key")
			if res.StatusCode != http.StatusNoContent || body != "" {
				t.Errorf("response = %d %s, want 204 without a body", res.StatusCode, body)
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
				expect.Equal(t, res.Header.Get(name), value, "%s", name)
			}
		})
	}
	expect.Equal(t, s.store.calls.Load(), 0, "store requests")
}
