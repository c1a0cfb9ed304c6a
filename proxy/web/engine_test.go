package web_test

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newServer returns a handler for /ok, /open (without a key), /denied (which no rule allows), /fail, /panic, and /late,
// which fails after its response. The access log is written to lines.
func newServer(o web.Options, lines *strings.Builder) (*web.Stack, http.Handler) {
	o.Record.AccessLog, o.Logger = lines, slog.New(slog.NewTextHandler(io.Discard, nil))
	s := web.New(o, nil)
	render := func(_ *web.Request, h http.Header, f *failure.Failure) (int, string, []byte) {
		f.SetAdvice(h)
		return f.Status, "text/plain", []byte(f.Public)
	}
	engine := s.NewEngine(nil, func(r *web.Request) web.Route {
		name := strings.TrimPrefix(r.URL.Path, "/")
		rt := web.Route{Name: name, Keyed: name != "open", Render: render, Serve: func(r *web.Request) error {
			switch name {
			case "fail":
				return failure.BadInput("bad")
			case "panic":
				panic("defect")
			case "late":
				r.Send(http.StatusAccepted, "text/plain", []byte("late"))
				return errors.New("too late")
			}
			r.ResponseHeader.Set("Cache-Control", "public")
			r.Send(http.StatusOK, "text/plain", []byte("ok"))
			return nil
		}}
		if name == "denied" {
			rt.Access = "/denied"
		}
		return rt
	})
	return s, engine.Handler()
}

func TestAddressWithoutPathIsTheRoot(t *testing.T) {
	var path string
	s := web.New(web.Options{}, nil)
	e := s.NewEngine(&web.Mount{Exact: true}, func(r *web.Request) web.Route {
		path = r.URL.Path
		return web.Route{Serve: func(*web.Request) error { return nil }}
	})
	e.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.example?a=b", nil))
	expect.Equal(t, path, "/", "path of http://x.example")
}

func TestMiddlewareAppliesToRequests(t *testing.T) {
	var log strings.Builder
	_, handler := newServer(web.Options{
		Settings: web.Settings{CORSOrigins: []string{"https://App.example", "https://*.App.example"}},
		Keys:     []limits.Key{{Name: "k", SHA256: sha256.Sum256([]byte("key"))}},
		Limits:   limits.Limits{Access: []limits.Rule{limits.NewDeny("/denied")}},
	}, &log)
	const page = "https://app.example"
	preflight := map[string]string{"Origin": page, "Access-Control-Request-Method": "GET"}
	for name, tt := range map[string]struct {
		method, path string
		headers      map[string]string
		status       int
		body         string
		origin       string // Access-Control-Allow-Origin
	}{
		"with a key":                         {"GET", "/ok", map[string]string{"X-Api-Key": "key"}, 200, "ok", ""},
		"HEAD":                               {"HEAD", "/ok", map[string]string{"X-Api-Key": "key"}, 200, "", ""},
		"without a key":                      {"GET", "/ok", nil, 401, "the X-Api-Key header is required", ""},
		"with another key":                   {"GET", "/ok", map[string]string{"X-Api-Key": "x"}, 401, "the X-Api-Key is not valid", ""},
		"open without a key":                 {"GET", "/open", nil, 200, "ok", ""},
		"from an allowed origin":             {"GET", "/open", map[string]string{"Origin": page}, 200, "ok", page},
		"from a host below a domain":         {"GET", "/open", map[string]string{"Origin": "https://preview-1.app.example"}, 200, "ok", "https://preview-1.app.example"},
		"from a host far below a domain":     {"GET", "/open", map[string]string{"Origin": "https://a.b.app.example"}, 200, "ok", ""},
		"from another origin":                {"GET", "/open", map[string]string{"Origin": "https://evil.example"}, 200, "ok", ""},
		"a failure for an allowed origin":    {"GET", "/ok", map[string]string{"Origin": page}, 401, "the X-Api-Key header is required", page},
		"a preflight":                        {"OPTIONS", "/ok", preflight, 204, "", page},
		"a preflight from another origin":    {"OPTIONS", "/ok", map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}, 204, "", ""},
		"OPTIONS without a preflight header": {"OPTIONS", "/open", map[string]string{"Origin": page}, 200, "ok", page},
		"denied by a rule":                   {"GET", "/denied", map[string]string{"X-Api-Key": "key"}, 403, "access to /denied is denied here", ""},
		"a failure":                          {"GET", "/fail", map[string]string{"X-Api-Key": "key"}, 400, "bad", ""},
		"a panic":                            {"GET", "/panic", map[string]string{"X-Api-Key": "key"}, 500, "internal error", ""},
		"a failure after the response":       {"GET", "/late", map[string]string{"X-Api-Key": "key"}, 202, "late", ""},
		"the longest target":                 {"GET", "/open?" + strings.Repeat("x", web.MaxURL-len("/open?")), nil, 200, "ok", ""},
		"a longer target":                    {"GET", "/open?" + strings.Repeat("x", web.MaxURL-len("/open?")+1), nil, 414, "the request target is longer than 8192 bytes", ""},
		"the largest headers":                {"GET", "/open", map[string]string{"X": strings.Repeat("x", web.MaxHeader-1)}, 200, "ok", ""},
		"a long host":                        {"GET", "/open", map[string]string{"Host": strings.Repeat("x", web.MaxHeader+1)}, 431, "the request headers are larger than 16384 bytes", ""},
		"larger headers":                     {"GET", "/open", map[string]string{"X": strings.Repeat("x", web.MaxHeader)}, 431, "the request headers are larger than 16384 bytes", ""},
	} {
		r, w := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil), httptest.NewRecorder()
		r.Host = ""
		for header, value := range tt.headers {
			if r.Header.Set(header, value); header == "Host" {
				r.Header, r.Host = http.Header{}, value
			}
		}
		log.Reset()
		handler.ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != tt.status || body != tt.body {
			t.Errorf("%s: response = %d %q, want %d %q", name, w.Code, body, tt.status, tt.body)
		}
		h := w.Header()
		if h.Get("Access-Control-Allow-Origin") != tt.origin || (h.Get("Access-Control-Expose-Headers") == "") != (tt.origin == "") || h.Get("Vary") != "Origin" || h.Get("X-Request-Id") == "" {
			t.Errorf("%s: header = %v, want origin %q", name, h, tt.origin)
		}
		if allowed := h.Get("Access-Control-Allow-Headers"); (allowed != "") != (name == "a preflight") || allowed != "" && !strings.Contains(allowed, ", X-Cosmos-Block-Height") {
			t.Errorf("%s: Access-Control-Allow-Headers = %q, want X-Cosmos-Block-Height only for a preflight from an allowed origin", name, allowed)
		}
		if stored := h.Get("Cache-Control") == "public"; stored != (tt.status == http.StatusOK) && name != "a preflight" {
			t.Errorf("%s: Cache-Control = %q, want public only for status 200", name, h.Get("Cache-Control"))
		}
		var line struct {
			Status, Bytes int
			ID            string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Status != tt.status || line.Bytes != w.Body.Len() || line.ID != h.Get("X-Request-Id") {
			t.Errorf("%s: log line = %s, %v, want status %d with %d bytes", name, log.String(), err, tt.status, w.Body.Len())
		}
	}
}

func TestAnyOriginMayReadByDefault(t *testing.T) {
	for origin, want := range map[string]string{"*": "*", "none": ""} {
		_, handler := newServer(web.Options{Settings: web.Settings{CORSOrigins: []string{origin}}}, new(strings.Builder))
		for _, page := range []string{"", "https://app.example"} {
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/open", nil), httptest.NewRecorder()
			r.Header.Set("Origin", page)
			r.Header.Set("Access-Control-Request-Method", "GET")
			handler.ServeHTTP(w, r)
			h, status := w.Header(), http.StatusOK
			if page != "" && want != "" {
				status = http.StatusNoContent
			}
			if h.Get("Access-Control-Allow-Origin") != want || h.Get("Vary") != "" || w.Code != status {
				t.Errorf("origins %s, page %q: status %d, header %v, want %d and origin %q", origin, page, w.Code, h, status, want)
			}
		}
	}
}

func TestLaneWritesTheOriginHeadersOfTheMiddleware(t *testing.T) {
	const app = "https://app.example"
	for _, origins := range [][]string{{"*"}, {"none"}, {app}, {"https://*.example"}} {
		s, handler := newServer(web.Options{Settings: web.Settings{CORSOrigins: origins}}, new(strings.Builder))
		for _, sent := range [][]string{nil, {app}, {"https://evil.example"}, {app, app}} {
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/open", nil), httptest.NewRecorder()
			r.Header["Origin"] = sent
			handler.ServeHTTP(w, r)
			want := "x"
			for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"} {
				if value := w.Header().Get(name); value != "" {
					want += name + ": " + value + "\r\n"
				}
			}
			expect.Equal(t, string(s.AppendOrigin([]byte("x"), sent)), want, "AppendOrigin for %q with origins %s", sent, origins)
		}
	}
}

func TestLimitsApplyToAddressesKeysAndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := limits.Key{Name: "k", SHA256: sha256.Sum256([]byte("key"))}
		two := limits.Rate{Requests: 2, Per: time.Minute, Burst: 2}
		s, handler := newServer(web.Options{Keys: []limits.Key{key}, Limits: limits.Limits{Address: two}}, new(strings.Builder))
		get := func(path string) int {
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), httptest.NewRecorder()
			r.Header.Set("X-Api-Key", "key")
			handler.ServeHTTP(w, r)
			return w.Code
		}
		expect.Equal(t, [...]int{get("/open"), get("/fail"), get("/open")}, [...]int{200, 400, 429}, "statuses with a limit of 2")
		s.SetLimits(limits.Limits{Key: two})
		expect.Equal(t, [...]int{get("/ok"), get("/ok"), get("/ok"), get("/open")}, [...]int{200, 200, 429, 200}, "statuses with a limit of 2 for a key")

		key.Rate = two
		s.SetKeys([]limits.Key{key})
		time.Sleep(time.Hour)
		expect.Equal(t, [...]int{get("/ok"), get("/open"), get("/open")}, [...]int{200, 200, 429}, "statuses with a rate of 2 of the key, which is counted once")
		admitted := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		admitted.Record.Client.Key = key
		if err := s.AdmitKey(admitted); err != nil || !admitted.Record.Keyed {
			t.Errorf("AdmitKey of an admitted key = %v, Keyed %t; want nil and true", err, admitted.Record.Keyed)
		}
		s.SetKeys([]limits.Key{{Name: "k", SHA256: key.SHA256}})

		s.SetLimits(limits.Limits{Address: two})
		time.Sleep(time.Hour)
		opened := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		var last *web.Request
		serve := func(r *web.Request) (int, error) { last = r; return 0, nil }
		expect.NoError(t, s.Message(opened, "route", serve))
		called, call := false, web.NewRequest(opened)
		if err := s.Call(call, func(*web.Request) (int, error) { called = true; return 0, nil }); err != nil || !called || call.ResponseHeader.Get("RateLimit") == "" {
			t.Errorf("Call = %v with %v, want nil with RateLimit", err, call.ResponseHeader)
		}
		if err := s.Message(opened, "route", serve); failure.Of(err).Status != http.StatusTooManyRequests {
			t.Errorf("Exchange = %v, want 429", err)
		}
		if err := s.Repeat(last, func(*web.Request) (int, error) { panic("defect") }); err == nil || !last.Record.Start.Equal(time.Now()) {
			t.Errorf("Repeat = %v since %v, want a panic now", err, last.Record.Start)
		}
		opened.RequestURI = strings.Repeat("x", web.MaxURL+1)
		time.Sleep(time.Hour)
		if err := s.Call(web.NewRequest(opened), nil); failure.Of(err).Status != http.StatusRequestURITooLong {
			t.Errorf("Call with a long target = %v, want 414", err)
		}

		s.SetLimits(limits.Limits{Address: two, Access: []limits.Rule{limits.NewDeny("/denied")}})
		if _, err := s.Limiter(last, "/open", "/denied"); failure.Of(err).Status != http.StatusForbidden {
			t.Errorf("Limiter of a denied operation = %v, want 403", err)
		}
		limiter, err := s.Limiter(last, "/open")
		if err != nil || !limiter.Allows() || limiter.Name != "streams of "+last.Record.Client.Name() {
			t.Errorf("Limiter = %+v, %v, want one with remaining requests", limiter, err)
		}
		if first, second := limiter.Spend(t.Context()), limiter.Spend(t.Context()); first != 0 || second != 30*time.Second || limiter.Allows() {
			t.Errorf("Spend = %s, %s, Allows = %t; want 0s, 30s, false", first, second, limiter.Allows())
		}
		last.Record.Client.Key = key
		s.SetKeys(nil)
		if _, err := s.Limiter(last); failure.Of(err).Status != http.StatusUnauthorized {
			t.Errorf("Limiter of a revoked key = %v, want 401", err)
		}
	})
}

func TestBlockHeaderMustBeAPositiveInteger(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   int64
		ok     bool
	}{
		{nil, 0, true}, {[]string{""}, 0, true}, {[]string{"", "7"}, 7, true}, {[]string{"8", "8", ""}, 8, true}, {[]string{"8", "7"}, 0, false},
		{[]string{"1"}, 1, true}, {[]string{"0"}, 0, false}, {[]string{"-1"}, 0, false}, {[]string{"+1"}, 0, false}, {[]string{"x"}, 0, false},
	} {
		got, err := web.ReadBlock("X-Block-Height", tt.values)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("ReadBlock(%q) = %d, %v; want %d, accepted %t", tt.values, got, err, tt.want, tt.ok)
		}
	}
}

func TestMinimumEVMBlockIsReadFromHeaderOrURL(t *testing.T) {
	for _, tt := range []struct {
		header, url string
		want        int64 // 0 with an error
		err         string
	}{
		{"", "", 0, ""}, {"7", "", 7, ""}, {"", "7", 7, ""}, {"7", "7", 7, ""},
		{"x", "7", 0, "X-Min-Evm-Block is"}, {"7", "x", 0, "x-min-evm-block is"}, {"7", "8", 0, "they must be equal"},
	} {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?x-min-evm-block="+tt.url, nil))
		r.Header.Set("X-Min-Evm-Block", tt.header)
		r.RemoveParameters(func(name, _ string) (as, instead string) { return name, "" })
		got, err := web.ReadMinEVM(r)
		if f := failure.Of(cmp.Or(err, io.EOF)); err == nil && (got != tt.want || tt.err != "") || err != nil && (tt.err == "" || f.Status != http.StatusBadRequest || !strings.Contains(f.Public, tt.err)) {
			t.Errorf("ReadMinEVM with header %q and URL %q = %d, %v; want %d and error %q", tt.header, tt.url, got, err, tt.want, tt.err)
		}
	}
}

func TestBaseURLIsPublicURLOrRequestedHost(t *testing.T) {
	for _, tt := range []struct {
		public, host string
		tls          bool
		want         string
	}{
		{"https://public.example/", "a.example", false, "https://public.example/base"},
		{"", "a.example:80", false, "http://a.example:80/base"},
		{"", "[::1]", true, "https://[::1]/base"},
		{"", "tls.example", false, "https://tls.example/base"}, // to the trusted proxy
		{"", "", false, "/base"},
		{"", "a/b", false, "/base"},
		{"", strings.Repeat("a", 259), false, "http://" + strings.Repeat("a", 259) + "/base"},
		{"", strings.Repeat("a", 260), false, "/base"},
	} {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/base/x", nil))
		if r.Host = tt.host; tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		r.Base = "/base"
		if tt.host == "tls.example" {
			r.Header.Set("X-Forwarded-Proto", "https")
		}
		trusted := limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
		expect.Equal(t, web.New(web.Options{PublicURL: tt.public, Limits: trusted}, nil).BaseURL(r), tt.want, "BaseURL of host %q", tt.host)
	}
}

func TestDrainingServerClosesConnections(t *testing.T) {
	s, handler := newServer(web.Options{}, new(strings.Builder))
	for _, want := range []string{"", "close"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/open", nil))
		if got := w.Header().Get("Connection"); got != want || w.Code != http.StatusOK {
			t.Errorf("Connection = %q with status %d, want %q with 200", got, w.Code, want)
		}
		s.Drain()
	}
	if now := time.Now(); !s.Deadline(now).Equal(now.Add(15 * time.Second)) {
		t.Errorf("Deadline = %s after the start, want 15s", s.Deadline(now).Sub(now))
	}
}

func TestTrailingSlashIsLeftToRoutes(t *testing.T) {
	s := web.New(web.Options{}, nil)
	find := func(*web.Request) web.Route {
		return web.Route{Serve: func(r *web.Request) error {
			r.Writer.WriteHeader(http.StatusNotFound)
			return nil
		}}
	}
	engine := s.NewEngine(nil, find)
	engine.Handle("/docs", find, http.MethodGet)
	w := httptest.NewRecorder()
	engine.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs/", nil))
	if w.Code != http.StatusNotFound || w.Header().Get("X-Request-Id") == "" {
		t.Errorf("response = %d with headers %v, want the route's 404 with a request id", w.Code, w.Header())
	}
}

func TestRepeatedParameterCostsLinearMemory(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?"+strings.Repeat("&since", 1000), nil)
	remove := func(name, _ string) (as, instead string) { return name, "" }
	if n := testing.AllocsPerRun(10, func() { web.NewRequest(r).RemoveParameters(remove) }); n > 100 {
		t.Errorf("allocations for 1000 parameters = %v, want at most 100", n)
	}
}

func TestParametersAreRemovedFromQuery(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?a=1&my.b=%41+c;my.b=2&%6Dy.b&old=3&z=%zz", nil)
	got := web.NewRequest(r)
	got.RemoveParameters(func(name, _ string) (as, instead string) {
		switch name {
		case "my.b":
			return name, ""
		case "old":
			return "", "new=4"
		}
		return "", ""
	})
	if got.RequestURI != "/x?a=1&new=4&z=%zz" || got.URL.RawQuery != "a=1&new=4&z=%zz" || fmt.Sprintf("%q", got.Options["my.b"]) != `["A c" "2" ""]` {
		t.Errorf("request = %s without %q, want /x?a=1&new=4&z=%%zz without the three values of my.b", got.RequestURI, got.Options)
	}
	outer := got.Options
	got.RemoveParameters(func(name, _ string) (as, instead string) { return "all." + name, "" })
	if got.RequestURI != "/x" || len(got.Options) != 4 || len(outer) != 1 || r.RequestURI == "/x" {
		t.Errorf("request = %s without %q, and %q before; want /x without 4 parameters, and 1 before", got.RequestURI, got.Options, outer)
	}
	same := web.NewRequest(r)
	if same.RemoveParameters(func(string, string) (as, instead string) { return "", "" }); same.Request != r || same.Options != nil {
		t.Errorf("request without removed parameters = %s, want the same *http.Request", same.RequestURI)
	}
	for text, want := range map[string]string{"%41%4": "A%4", "%": "%", "%4g+": "%4g ", "a%2B": "a+"} {
		expect.Equal(t, web.Unescape(text), want, "Unescape(%q)", text)
	}
}

func TestNearestCandidateIsSuggested(t *testing.T) {
	candidates := []string{"log.level", "listen", "status"}
	for word, want := range map[string]string{"log_level": "log.level", "Listne": "listen", "stat": "status", "sta": "", "listen": "", "x": ""} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		expect.Equal(t, web.DidYouMean(word, candidates), want, "DidYouMean(%s)", word)
	}
	patterns := []string{"/staking/validators/{addr}", "/staking/pool", "/staking/{a}/{b}"}
	address := strings.Repeat("x", 60)
	for path, want := range map[string]string{
		"/staking/validater/" + address: "/staking/validators/{addr}", "/api/blocks/" + address: "", "/staking/validater/" + address + address + address + address: "",
		"/staking/validator/0x1234567890123456789": "/staking/validators/{addr}", "/staking/pol": "/staking/pool", "/pool": ""} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		expect.Equal(t, web.PathDidYouMean(path, patterns), want, "PathDidYouMean(%s)", path)
	}
	for size, want := range map[int]int{64: 64, 65: 64} {
		if got := web.Short(strings.Repeat("x", size)); len(got) != want || strings.HasSuffix(got, "…") != (size > want) {
			t.Errorf("Short of %d bytes = %s, want %d bytes, and an ellipsis if it is shorter", size, got, want)
		}
	}
	expect.Equal(t, web.Short(strings.Repeat("x", 60)+"éééé"), strings.Repeat("x", 60)+"…", "Short")
}
