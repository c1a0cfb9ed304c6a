package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// indexer is a fallback service that echoes requests, except on the paths of ServeHTTP.
type indexer struct {
	*httptest.Server
	down     atomic.Bool // closes connections without a response
	mu       sync.Mutex
	requests []*http.Request
}

func startIndexer(t *testing.T) *indexer {
	t.Helper()
	i := &indexer{}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *indexer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.down.Load() {
		panic(http.ErrAbortHandler)
	}
	i.mu.Lock()
	i.requests = append(i.requests, r)
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch path := strings.TrimPrefix(r.URL.Path, "/base"); path {
	case "/hangs":
		<-r.Context().Done()
	case "/hangs/within":
		fmt.Fprint(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/breaks":
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "{")
	case "/large", "/announced":
		if path == "/announced" {
			w.Header().Set("Content-Length", fmt.Sprint(11<<20))
		}
		for range 11 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	case "/fits":
		_, _ = w.Write(make([]byte, 10<<20))
	case "/redirects":
		http.Redirect(w, r, "/base/target?x=y", http.StatusFound)
	case "/leaves":
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
	case "/secure":
		http.Redirect(w, r, "https://"+r.Host+"/base/target", http.StatusFound)
	case "/bare", "/doubled":
		http.Redirect(w, r, "http://"+r.Host+map[string]string{"/doubled": "//elsewhere.example/x"}[path], http.StatusFound)
	case "/sibling":
		http.Redirect(w, r, "/base2/target", http.StatusFound)
	case "/hints":
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "{}")
	case "/switches":
		w.WriteHeader(http.StatusSwitchingProtocols)
	case "/empty":
		w.Header().Set("Expires", "Fri, 01 Jan 2100 00:00:00 GMT")
		w.WriteHeader(http.StatusNoContent)
	case "/refuses":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"code":500}`)
	default:
		for name, value := range map[string]string{
			"Set-Cookie": "a=b", "Access-Control-Allow-Origin": "https://evil.example", "Access-Control-Allow-Credentials": "true",
			"X-Session": "1.AA", "X-Request-Id": "theirs", "X-Total": "7", "Etag": `"v"`, "Vary": "Accept",
			"Cache-Control": "public, max-age=60", "Cloudflare-Cdn-Cache-Control": "max-age=60", "X-Accel-Expires": "60", "Ratelimit": "theirs",
			"Alt-Svc": `h3=":443"`, "Strict-Transport-Security": "max-age=63072000",
		} {
			w.Header().Set(name, value)
		}
		fmt.Fprintf(w, `{"indexer":%q}`, r.RequestURI)
	}
}

func (i *indexer) last() *http.Request {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests[len(i.requests)-1]
}

func (i *indexer) calls() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.requests)
}

// dashboard mounts the paths of the staking dashboard below /api.
func dashboard(t *testing.T, i *indexer) []proxy.Mount {
	t.Helper()
	return []proxy.Mount{{Path: "/"}, {
		Path: "/api", Shape: story.Node, Fallback: i.URL + "/base/",
		Always: []string{"/staking/validators", "/staking/validators/{v}", "/dkg/network/{round}"},
	}}
}

func TestFallbackServesPathsOutsideTheMount(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i)})
	for target, path := range map[string]string{
		"/api/network_status":                         "/base/network_status",
		"/api/operations/" + del0 + "?page=1&since=5": "/base/operations/" + del0 + "?page=1&since=5",
		"/api/operations?a=1;b=2&c=50%&d=3":           "/base/operations?a=1;b=2&c=50%&d=3",
		"/api/staking/validators":                     "/base/staking/validators",
		"/api/staking/validators/" + val5:             "/base/staking/validators/" + val5,
		"/api/dkg/network/7/":                         "/base/dkg/network/7",
		"/api/a%20b%2Fc":                              "/base/a%20b/c",
	} {
		for range 2 { // nothing is cached
			before := i.calls()
			if got, want := s.get(t, target), fmt.Sprintf(`{"indexer":%q}`, path); got.status != http.StatusOK || got.body != want || i.calls() != before+1 {
				t.Errorf("%s = %d %s after %d requests, want 200 %s after 1", target, got.status, got.body, i.calls()-before, want)
			}
		}
	}
	before := i.calls()
	for _, target := range []string{"/api" + poolPath, "/api/staking/validators/" + val5 + "/delegations", "/staking/validators", "/api/batch?path=" + poolPath} {
		if got := s.get(t, target); strings.Contains(got.body, "indexer") || got.status != http.StatusOK {
			t.Errorf("%s = %d %s, want the response of the chain", target, got.status, got.body)
		}
	}
	for target, status := range map[string]int{
		"/network_status": http.StatusNotFound, "/api/a/%2e%2e/b": http.StatusNotFound, "/api/..;/..;/admin": http.StatusNotFound, "/api/..%3b/admin": http.StatusNotFound,
		"/api/a/..;x=1/b": http.StatusNotFound, "/api/.;/b": http.StatusNotFound, "/api/%2e%2e%2fadmin": http.StatusNotFound,
		"/api/a%5Cb": http.StatusNotFound, "/api/a%00": http.StatusNotFound,
		"/api" + batchOf("/staking/validators"): http.StatusBadRequest, "/api/live?path=/network_status": http.StatusBadRequest,
	} {
		s.get(t, target).expect(t, status)
	}
	s.do(t, http.MethodPost, "/api/network_status", "{}").expect(t, http.StatusMethodNotAllowed)
	expect.Equal(t, i.calls()-before, 0, "requests at the fallback that the chain must answer or refuse")
	head := s.do(t, http.MethodHead, "/api/network_status", "")
	head.expectHeader(t, "Content-Length", fmt.Sprint(len(`{"indexer":"/base/network_status"}`)))
}

func TestFallbackGetsNoSecretsAndSetsNone(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i), Web: web.Options{Settings: web.Settings{CORSOrigins: []string{"https://app.example"}}}})
	got := s.do(t, http.MethodGet, "/api/network_status?stream.api_key=tipcache_1&x=y", "a body", "X-Api-Key", "tipcache_2", "Cookie", "tipcache-session-x=1", "X-Session", "9.BB",
		"X-Min-Block-Height", "1", "X-Min-Evm-Block", "1", "Connection", "Upgrade, X-Secret", "Upgrade", "websocket", "X-Secret", "1", "X-Forwarded-For", "192.0.2.1", "If-None-Match", `"v"`, "Origin", "https://app.example")
	sent := i.last()
	for _, name := range []string{"X-Api-Key", "Cookie", "X-Session", "X-Min-Block-Height", "X-Min-Evm-Block", "Upgrade", "X-Secret"} {
		expect.Equal(t, sent.Header.Get(name), "", "%s at the fallback", name)
	}
	if sent.RequestURI != "/base/network_status?x=y" || sent.ContentLength != 0 || sent.Host != i.Listener.Addr().String() {
		t.Errorf("request at the fallback = %s for %s with %d bytes, want /base/network_status?x=y for its own host with none", sent.RequestURI, sent.Host, sent.ContentLength)
	}
	expect.Equal(t, sent.Header.Get("X-Forwarded-Proto"), "http", "X-Forwarded-Proto")
	if client, tag := sent.Header.Get("X-Forwarded-For"), sent.Header.Get("If-None-Match"); client != "127.0.0.1" || tag != `"v"` {
		t.Errorf("X-Forwarded-For = %q and If-None-Match = %q, want 127.0.0.1 and \"v\"", client, tag)
	}
	for name, want := range map[string]string{
		"Set-Cookie": "", "Access-Control-Allow-Credentials": "", "X-Session": "", "Access-Control-Allow-Origin": "https://app.example",
		"X-Total": "7", "Etag": `"v"`, "Cache-Status": "tipcache; fwd=bypass", "Cache-Control": "public, max-age=60", "Ratelimit": "", "Alt-Svc": "", "Strict-Transport-Security": "",
	} {
		got.expectHeader(t, name, want)
	}
	if ids := got.header["X-Request-Id"]; len(ids) != 1 || ids[0] == "theirs" {
		t.Errorf("X-Request-Id = %q, want one of the proxy", ids)
	}
	expect.NoDiff(t, got.header["Vary"], []string{"Origin", "Accept"}, "Vary")
}

func TestFallbackGetsOnlyListedHeaders(t *testing.T) {
	passed := []string{
		"Accept", "application/json", "Accept-Language", "ko", "Accept-Encoding", "identity", "Content-Type", "text/plain", "If-Match", `"a"`, "If-None-Match", `"b"`,
		"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT", "Range", "bytes=0-1", "Origin", "https://app.example", "User-Agent", "browser",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "X-Request-Id", "one",
	}
	dropped := []string{
		"X-Original-Url", "/admin", "X-Rewrite-Url", "/admin", "X-Http-Method-Override", "DELETE", "X-Method-Override", "PUT", "X-Real-Ip", "192.0.2.1", "Forwarded", "for=192.0.2.1",
		"X-Forwarded-Prefix", "/x", "True-Client-Ip", "192.0.2.1", "Cache-Control", "no-cache", "Proxy-Authorization", "Basic x", "X-Anything", "1",
	}
	for _, authorized := range []bool{false, true} {
		i := startIndexer(t)
		mounts := dashboard(t, i)
		mounts[1].PassAuthorization = authorized
		s := startChain(t, proxy.Options{Mounts: mounts})
		s.do(t, http.MethodGet, "/api/network_status", "", slices.Concat(passed, dropped, []string{"Authorization", "Bearer secret"})...).expect(t, http.StatusOK)
		got := i.last().Header
		for n := 0; n < len(passed); n += 2 {
			expect.Equal(t, got.Get(passed[n]), passed[n+1], "%s at the fallback", passed[n])
		}
		for n := 0; n < len(dropped); n += 2 {
			expect.Equal(t, got.Get(dropped[n]), "", "%s at the fallback", dropped[n])
		}
		expect.Equal(t, got.Get("Authorization") == "Bearer secret", authorized, "Authorization at the fallback")
	}
}

func TestSlowFallbackIsAGatewayTimeout(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{Mounts: dashboard(t, startIndexer(t)), Web: web.Options{Settings: web.Settings{RequestTimeout: 100 * time.Millisecond}}})
	for _, target := range []string{"/api/hangs", "/api/hangs/within"} {
		s.get(t, target).expectRefusal(t, 504, chainRefusal(504, "the fallback service did not answer in time"))
	}
}

func TestFailuresOfAFallbackHaveTheFormOfTheChain(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i), Web: web.Options{Settings: web.Settings{RequestTimeout: 5 * time.Minute}}})
	const lost, large = "the fallback service cannot be reached", "the response of the fallback service is larger than 10 MiB"
	for target, text := range map[string]string{"/api/breaks": lost, "/api/switches": lost, "/api/announced": large, "/api/large": large} {
		s.get(t, target).expectRefusal(t, 502, chainRefusal(502, text))
	}
	if got := s.get(t, "/api/refuses"); got.status != http.StatusInternalServerError || got.body != `{"code":500}` {
		t.Errorf("refusal = %d %s, want the refusal of the fallback", got.status, got.body)
	}
	if got := s.get(t, "/api/fits"); got.status != http.StatusOK || len(got.body) != 10<<20 {
		t.Errorf("response of 10 MiB = %d with %d bytes, want 200 with all of them", got.status, len(got.body))
	}
	s.get(t, "/api"+poolPath).expect(t, http.StatusOK)
	i.Close()
	s.get(t, "/api/network_status").expectRefusal(t, 502, chainRefusal(502, lost))
}

func TestRedirectsOfAFallbackAreNotFollowed(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i)})
	for target, want := range map[string]string{
		"/api/redirects": "/api/target?x=y", "/api/leaves": "https://elsewhere.example/",
		"/api/secure": strings.Replace(i.URL, "http:", "https:", 1) + "/base/target", "/api/sibling": "/base2/target",
	} {
		before := i.calls()
		got := s.unfollowed(t, target)
		got.expectHeader(t, "Location", want)
		if got.status != http.StatusFound || i.calls() != before+1 {
			t.Errorf("%s = %d after %d requests, want 302 after 1", target, got.status, i.calls()-before)
		}
	}
	s = startChain(t, proxy.Options{Mounts: []proxy.Mount{{Path: "/", Fallback: i.URL}}})
	for target, want := range map[string]string{"/bare": "/", "/doubled": "/elsewhere.example/x"} { // not to the same URL or another host
		got := s.unfollowed(t, target)
		got.expectHeader(t, "Location", want)
	}
	s = startChain(t, proxy.Options{Mounts: dashboard(t, i)})
	got := s.get(t, "/api/hints")
	got.expectHeader(t, "Access-Control-Allow-Origin", "*")
	if got.status != http.StatusOK || got.body != "{}" {
		t.Errorf("response after early hints = %d %s, want 200 {}", got.status, got.body)
	}
}

func TestFallbackThatIsDownIsDegraded(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i)})
	all := s.proxy.Fallbacks()
	if len(all) != 1 || all[0].Outage.Name() != "fallback "+i.Listener.Addr().String() {
		t.Fatalf("fallbacks = %d, want one at %s", len(all), i.Listener.Addr())
	}
	for _, down := range []bool{false, true, false} {
		i.down.Store(down)
		s.get(t, "/api/network_status")
		expect.Equal(t, all[0].Outage.Failing(), down, "Failing")
	}
	s.get(t, "/api/network_status", "Connection", "Upgrade", "Upgrade", "é").expect(t, http.StatusOK)
	expect.Equal(t, all[0].Outage.Failing(), false, "Failing after a malformed request of a client")
}

func TestFallbackRequiresAKeyIfTheChainDoes(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i), Chain: blocks.Options{Auth: true}})
	for _, path := range []string{"/api/network_status", "/api/staking/validators"} {
		s.get(t, path).expect(t, http.StatusUnauthorized)
	}
	expect.Equal(t, i.calls(), 0, "requests at the fallback")
}

func TestFallbackLearnsTheSchemeOfATrustedProxy(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i), Web: web.Options{
		Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}})
	s.get(t, "/api/network_status", "X-Forwarded-Proto", "https").expect(t, http.StatusOK)
	expect.Equal(t, i.last().Header.Get("X-Forwarded-Proto"), "https", "X-Forwarded-Proto")
}

func TestResponsesOfAFallbackThatNeedAKeyAreNotCached(t *testing.T) {
	i := startIndexer(t)
	s := startChain(t, proxy.Options{Mounts: dashboard(t, i), Chain: blocks.Options{Auth: true}, Web: web.Options{Keys: []limits.Key{keyOf("app", "secret")}}})
	for path, status := range map[string]int{"/api/network_status": http.StatusOK, "/api/empty": http.StatusNoContent} {
		got := s.get(t, path, "X-Api-Key", "secret")
		got.expect(t, status)
		got.expectHeader(t, "Cache-Control", "no-store")
		for _, name := range []string{"Expires", "Cloudflare-Cdn-Cache-Control", "X-Accel-Expires"} {
			got.expectHeader(t, name, "")
		}
	}
}

func TestHealthCheckGoesToFallbackOnlyIfAlwaysNamesIt(t *testing.T) {
	i := startIndexer(t)
	for _, tt := range []struct {
		mount proxy.Mount
		want  string
	}{
		{proxy.Mount{Path: "/"}, "ready\n"},
		{proxy.Mount{Path: "/", Fallback: i.URL}, "ready\n"},
		{proxy.Mount{Path: "/api", Fallback: i.URL, Always: []string{"/readyz"}}, "ready\n"},
		{proxy.Mount{Path: "/", Fallback: i.URL, Always: []string{"/readyz"}}, ""},
	} {
		s := startChain(t, proxy.Options{Mounts: []proxy.Mount{tt.mount}})
		got := s.get(t, "/readyz")
		isOurs := got.body == "ready\n"
		expect.Equal(t, strings.Contains(explain(t, s.proxy, proxy.Inquiry{URL: "/readyz"}).Why, "health check"), isOurs, "whether a health check is explained with the mount %+v", tt.mount)
		if isOurs != (tt.want != "") || got.status != http.StatusOK {
			t.Errorf("/readyz with the mount %+v = %d %q, want 200 %q or the response of the fallback", tt.mount, got.status, got.body, tt.want)
		}
		if got := s.get(t, "/healthz"); got.body != "alive\n" {
			t.Errorf("/healthz with the mount %+v = %q, want alive", tt.mount, got.body)
		}
	}
}
