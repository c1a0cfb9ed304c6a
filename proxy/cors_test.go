package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/web"
)

const (
	page    = "https://app.example"
	exposed = "X-Block-Height, X-Evm-Block, X-Session, X-Session-Reset, ETag, Cache-Status, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Link, X-Unknown-Parameters"
)

func TestPagesOfAllowedOriginsMayReadAnswers(t *testing.T) {
	tests := []struct {
		name          string
		origins       []string
		sent, allowed string
		vary          string
	}{
		{"unless said otherwise any page may", nil, page, "*", "Accept, Accept-Encoding, X-Session"},
		{"and a cache gets what it can give to any page", nil, "", "*", "Accept, Accept-Encoding, X-Session"},
		{"a listed one may", []string{"https://other.example", page}, page, page, "Accept, Accept-Encoding, X-Session, Origin"},
		{"however the list writes it", []string{"HTTPS://App.Example"}, page, page, "Accept, Accept-Encoding, X-Session, Origin"},
		{"another one may not", []string{page}, "https://evil.example", "", "Accept, Accept-Encoding, X-Session, Origin"},
		{"nor one that begins like it", []string{page}, page + ".evil.example", "", "Accept, Accept-Encoding, X-Session, Origin"},
		{"nor another scheme", []string{page}, "http://app.example", "", "Accept, Accept-Encoding, X-Session, Origin"},
		{"nor another port", []string{page}, page + ":8443", "", "Accept, Accept-Encoding, X-Session, Origin"},
		{"nor a sandboxed one", []string{page}, "null", "", "Accept, Accept-Encoding, X-Session, Origin"},
		{"and no origin is none", []string{page}, "", "", "Accept, Accept-Encoding, X-Session, Origin"},
		{"nobody may if so said", []string{"none"}, page, "", "Accept, Accept-Encoding, X-Session"},
		{"not even one of that name", []string{"none"}, "none", "", "Accept, Accept-Encoding, X-Session"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{Web: web.Options{CORSOrigins: tt.origins}})
			var headers []string
			if tt.sent != "" {
				headers = []string{"Origin", tt.sent}
			}
			for range 2 { // from the node and from memory
				got := s.get(t, anyPath, headers...)
				got.has(t, "Access-Control-Allow-Origin", tt.allowed)
				got.has(t, "Access-Control-Allow-Credentials", "")
				got.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, "+tt.vary)
				want := ""
				if tt.allowed != "" {
					want = exposed
				}
				got.has(t, "Access-Control-Expose-Headers", want)
			}
		})
	}
}

func TestPagesMayReadWhyTheyAreRefused(t *testing.T) {
	s := startList(t, listing.Options{}, func(o *proxy.Options) {
		o.Web.CORSOrigins, o.Chain.RefuseUnknown = []string{page}, true
	})
	tests := []struct {
		name, method, path string
		status             int
	}{
		{"no key", http.MethodPost, listPath, 401},
		{"another method", http.MethodGet, listPath, 405},
		{"no such path", http.MethodGet, "/nowhere", 404},
		{"a node that is gone", http.MethodGet, "/staking/params", 500},
		{"bad input", http.MethodGet, "/staking/validators/nope", 400},
		{"a document", http.MethodGet, "/api/v4/Problem.json", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, body := s.send(t, tt.method, tt.path, "", "Origin", page, "X-Api-Key", "")
			if res.StatusCode != tt.status {
				t.Errorf("status %d: %s", res.StatusCode, body)
			}
			wantHeader(t, res, "Access-Control-Allow-Origin", page)
			wantHeader(t, res, "Vary", "Origin")
		})
	}
}

func TestPreflightsAreAnsweredWithoutAskingAnybody(t *testing.T) {
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
	if n := s.store.calls.Load(); n > 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

func TestWhatIsNoPreflightIsAMethodNotServed(t *testing.T) {
	preflight := []string{"Origin", page, "Access-Control-Request-Method", "GET"}
	tests := []struct {
		name    string
		origins []string
		headers []string
	}{
		{"without an origin", nil, preflight[2:]},
		{"without the method asked about", nil, preflight[:2]},
		{"where no page may read", []string{"none"}, preflight},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{Web: web.Options{CORSOrigins: tt.origins}})
			got := s.do(t, http.MethodOptions, anyPath, "", tt.headers...)
			got.refuses(t, 405, `{"code":405,"msg":{},"error":"the method OPTIONS is not served here"}`+"\n")
			got.has(t, "Allow", "GET, HEAD")
		})
	}
}

func TestOneOriginsHeadersDoNotReachAnother(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{CORSOrigins: []string{page, "https://other.example"}}})
	var got []string
	for _, origin := range []string{page, "https://other.example", "https://evil.example", page} {
		got = append(got, s.get(t, anyPath, "Origin", origin).header.Get("Access-Control-Allow-Origin"))
	}
	if diff := cmp.Diff([]string{page, "https://other.example", "", page}, got); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", strings.TrimSpace(diff))
	}
}
