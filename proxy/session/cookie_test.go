package session

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestCookieIsSecureIfTheClientUsesTLS(t *testing.T) {
	admission := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), nil)
	admission.Limits.Store(&limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")}})
	for name, tt := range map[string]struct {
		peer, proto string
		tls, want   bool
	}{
		"TLS":                          {"192.0.2.1:1", "", true, true},
		"plain text":                   {"192.0.2.1:1", "", false, false},
		"TLS to a trusted proxy":       {"10.0.0.1:1", "HTTPS, http", false, true},
		"plain text to trusted proxy":  {"10.0.0.1:1", "http", false, false},
		"TLS to an untrusted proxy":    {"192.0.2.1:1", "https", false, false},
		"TLS to a proxy on the link":   {"[fe80::1%eth0]:1", "https", false, true},
		"an invalid address of a peer": {"10.0.0.1", "https", false, false},
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.RemoteAddr = tt.peer
		r.Header.Set("X-Forwarded-Proto", tt.proto)
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		NewClients(admission, true).SetCookieSession(w, r, "a/1", Token{Height: 5})
		if got := w.Header().Get("Set-Cookie"); !strings.HasPrefix(got, "tipcache-session-a%2F1=5; Path=/; HttpOnly") || strings.Contains(got, "; Secure") != tt.want {
			t.Errorf("%s: Set-Cookie = %q, want Secure: %t", name, got, tt.want)
		}
	}
}

func TestCookieSessionAboveTipLimitIsIgnored(t *testing.T) {
	admission := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), nil)
	for cookie, want := range map[string]Token{"7": {Height: 7}, "100": {Height: 100}, "101": {}, "x": {}, "": {}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Cookie", "tipcache-session-a="+cookie)
		expect.Equal(t, NewClients(admission, true).CookieSession(r, "a", node.Tip{Limit: 100}), want, "session of cookie %q", cookie)
		expect.Equal(t, NewClients(admission, true).CookieSession(r, "b", node.Tip{Limit: 100}), (Token{}), "session of cookie %q with another chain", cookie)
		expect.Equal(t, NewClients(admission, false).CookieSession(r, "a", node.Tip{Limit: 100}), (Token{}), "session of cookie %q without session cookies", cookie)
	}
}
