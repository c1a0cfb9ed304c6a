package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestUnknownPathsAndMethodsAreRefusedInTheEnvelope(t *testing.T) {
	s := startChain(t, proxy.Options{Story: story.Options{RefuseUnknown: true}})
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

func TestPostToTheRootSaysWhereJSONRPCIs(t *testing.T) {
	for name, h := range map[string]http.Handler{"Story": startChain(t, proxy.Options{}).Config.Handler, "the SDK": newSDK(t, devnet.Options{}, nil).proxy} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`)))
		expect.Contains(t, w.Body.String(), "the method POST is not served here: this address has the REST API, CometBFT's JSON-RPC has an address of its own", "response of %s", name)
	}
}

func TestRootRedirectsToTheManual(t *testing.T) {
	startChain(t, proxy.Options{}).get(t, "/").expect(t, http.StatusOK, "<title>tipcache") // after the redirect
	startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}}).get(t, "/").expect(t, http.StatusNotFound)
}

// short abbreviates a path as errors do.
func short(path string) string {
	if len(path) <= 64 {
		return path
	}
	return path[:61] + "…"
}

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
				"Access-Control-Allow-Headers": "X-Api-Key, Content-Type, X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, X-Session, If-None-Match, X-Request-Id, traceparent, X-Grpc-Web, X-User-Agent, Grpc-Timeout, Authorization, Cache-Control, Last-Event-Id, Pragma, X-Requested-With, X-Server-Time, X-Cosmos-Block-Height, Grpc-Metadata-X-Cosmos-Block-Height",
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

// longFresh keeps an entry fresh for 100 blocks.
var longFresh = cache.Policy{
	FreshBlocks: 100, StaleBlocks: 200, ErrorBlocks: 1000,
	Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour,
}

// The proxy answers for the chain, so it ignores directives that would make it read the node.
func TestRequestHeadersDoNotBypassTheCache(t *testing.T) {
	s := startChain(t, proxy.Options{Routes: map[string]cache.Policy{"pool": longFresh}})
	first := s.get(t, anyPath)
	for name, headers := range map[string][]string{
		"no-store":                  {"Cache-Control", "no-store"},
		"no-cache":                  {"Cache-Control", "no-cache"},
		"no-cache of HTTP/1.0":      {"Pragma", "no-cache"},
		"max-age=0":                 {"Cache-Control", "max-age=0"},
		"max-age":                   {"Cache-Control", "max-age=1"},
		"max-stale":                 {"Cache-Control", "max-stale=10"},
		"min-fresh":                 {"Cache-Control", "min-fresh=100000"},
		"only-if-cached":            {"Cache-Control", "only-if-cached"},
		"a malformed directive":     {"Cache-Control", "=,;\"no-cache"},
		"credentials":               {"Authorization", "Bearer x"},
		"a cookie":                  {"Cookie", "a=b"},
		"a range":                   {"Range", "bytes=0-3"},
		"another ETag in If-Match":  {"If-Match", `"other"`},
		"a future date":             {"If-Modified-Since", "Sun, 22 Nov 2037 00:00:00 GMT"},
		"a past date":               {"If-Unmodified-Since", "Sun, 22 Nov 1987 00:00:00 GMT"},
		"another ETag and a date":   {"If-None-Match", `"other"`, "If-Modified-Since", "Sun, 22 Nov 2037 00:00:00 GMT"},
		"an ETag without quotes":    {"If-None-Match", strings.Trim(first.header.Get("Etag"), `"`)},
		"a language and user agent": {"Accept-Language", "de", "User-Agent", "x"},
		"an unknown header":         {"X-Nobody-Knows", "this"},
		"a referer":                 {"Referer", "https://example.org/"},
		"a priority":                {"Priority", "u=0"},
		"a type other than JSON":    {"Accept", "text/html"},
		"an unknown coding":         {"Accept-Encoding", "unknown;q=1"},
	} {
		got := s.get(t, anyPath, headers...)
		if status := got.header.Get("Cache-Status"); got.status != http.StatusOK || got.body != first.body || !strings.HasPrefix(status, "tipcache; hit") {
			t.Errorf("%s: response = %d %.80s with Cache-Status %s, want the cached entry", name, got.status, got.body, status)
		}
	}
	expect.Equal(t, s.chain.calls(), 1, "node requests")
}

func TestHEADEncodesNothing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	s.Client().Transport.(*http.Transport).DisableCompression = true
	head := func(accepted string) exchange {
		return s.do(t, http.MethodHead, longPath, "", "Accept-Encoding", accepted)
	}
	for range 2 {
		for _, coding := range []string{"gzip", "br", "zstd", "br, identity;q=0"} {
			got := head(coding)
			got.expectHeader(t, "Content-Encoding", strings.TrimSuffix(coding, ", identity;q=0"))
			got.expectHeader(t, "Content-Length", "")
		}
	}
	expect.Equal(t, expect.Metric(t, registry, "tipcache_cache_encodings_total"), 0, "encoded bodies")
	get, again := s.get(t, longPath, "Accept-Encoding", "br"), head("br")
	for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Content-Type"} {
		again.expectHeader(t, name, get.header.Get(name))
	}
	head("").expectHeader(t, "Content-Length", s.get(t, longPath).header.Get("Content-Length"))
}

// longPath is a path whose response is long enough to be compressed.
const longPath = "/staking/validators"

// decode decodes a body in a content coding.
func decode(t testing.TB, coding, body string) string {
	t.Helper()
	var from io.Reader = strings.NewReader(body)
	switch coding {
	case "":
		return body
	case "gzip":
		r := expect.Value(gzip.NewReader(from))(t)
		r.Multistream(false) // browsers read the first member only
		from = r
	case "zstd":
		r := expect.Value(zstd.NewReader(from))(t)
		defer r.Close()
		from = r
	case "br":
		from = brotli.NewReader(from)
	default:
		t.Fatalf("Content-Encoding = %q, want gzip, zstd or br", coding)
	}
	return string(expect.Value(io.ReadAll(from))(t))
}

// FuzzAcceptEncoding checks that the client accepts the coding of the response, and that the body decodes to the plain one.
func FuzzAcceptEncoding(f *testing.F) {
	for _, sent := range []string{"gzip, deflate, br, zstd", "br;q=0.5,*;q=0.1", "identity;q=0", "x-gzip;q=1.000", "*;q=0", ";;,=q", "gzip;q=1.", "gzip;q=1.1"} {
		f.Add(sent)
	}
	h, _ := newChainProxy(f, proxy.Options{})
	plain := serveGET(h, longPath, "").Body.String()
	f.Fuzz(func(t *testing.T, sent string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: longPath}, Header: http.Header{"Accept-Encoding": {sent}}, Body: http.NoBody})
		coding := w.Header().Get("Content-Encoding")
		if !strings.Contains(strings.ToLower(sent), coding) && !strings.Contains(sent, "*") {
			t.Errorf("Content-Encoding for %q = %s, want an accepted one", sent, coding)
		}
		if w.Code == http.StatusOK && decode(t, coding, w.Body.String()) != plain {
			t.Errorf("body for %q in coding %q differs from the plain body", sent, coding)
		}
	})
}
