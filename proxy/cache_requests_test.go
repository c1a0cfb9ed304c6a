package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
)

// An answer that would serve for long.
var long = cache.Policy{
	FreshBlocks: 100, StaleBlocks: 200, ErrorBlocks: 1000,
	Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour,
}

// What clients of caches send with a request, and what it does to an answer that is
// at hand. A shared cache in front of a chain answers for the chain: directives that
// would make it ask the node are not obeyed.
func TestRequestDirectivesDoNotKeepAnAnswerFromBeingUsed(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{Routes: map[string]cache.Policy{"pool": long}}})
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
		"what no directive is":      {"Cache-Control", "=,;\"no-cache"},
		"credentials":               {"Authorization", "Bearer x"},
		"a cookie":                  {"Cookie", "a=b"},
		"a range":                   {"Range", "bytes=0-3"},
		"a condition for writers":   {"If-Match", `"other"`},
		"a date of the future":      {"If-Modified-Since", "Sun, 22 Nov 2037 00:00:00 GMT"},
		"a date that is passed":     {"If-Unmodified-Since", "Sun, 22 Nov 1987 00:00:00 GMT"},
		"a tag and a date":          {"If-None-Match", `"other"`, "If-Modified-Since", "Sun, 22 Nov 2037 00:00:00 GMT"},
		"a tag without its quotes":  {"If-None-Match", strings.Trim(first.header.Get("Etag"), `"`)},
		"a language and a user":     {"Accept-Language", "de", "User-Agent", "x"},
		"a name that nobody knows":  {"X-Nobody-Knows", "this"},
		"where it was linked from":  {"Referer", "https://example.org/"},
		"a wish for early answers":  {"Priority", "u=0"},
		"a kind that is not JSON":   {"Accept", "text/html"},
		"the codings it can do not": {"Accept-Encoding", "unknown;q=1"},
	} {
		got := s.get(t, anyPath, headers...)
		if got.status != http.StatusOK || got.body != first.body {
			t.Errorf("%s: %d %.80s", name, got.status, got.body)
		}
		if status := got.header.Get("Cache-Status"); !strings.HasPrefix(status, "tipcache; hit") {
			t.Errorf("%s: %s", name, status)
		}
	}
	if n := s.chain.calls(); n != 1 {
		t.Errorf("the node was asked %d times, want once", n)
	}
}

// A client that has said all shuts its side of the connection, as nc does.
func TestHalfClosedClientGetsCachedResponse(t *testing.T) {
	s := startChain(t, proxy.Options{})
	want := s.get(t, anyPath).body
	conn := expect.Value(net.Dial("tcp", s.Listener.Addr().String()))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "GET "+anyPath+" HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 ") || !strings.HasSuffix(string(got), want) {
		t.Errorf("%v: %q", err, got)
	}
}
