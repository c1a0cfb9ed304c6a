package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
)

// longFresh keeps an entry fresh for 100 blocks.
var longFresh = cache.Policy{
	FreshBlocks: 100, StaleBlocks: 200, ErrorBlocks: 1000,
	Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour,
}

// The proxy answers for the chain, so it ignores directives that would make it read the node.
func TestRequestHeadersDoNotBypassTheCache(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Routes: map[string]cache.Policy{"pool": longFresh}}})
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
