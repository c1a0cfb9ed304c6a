package proxy_test

import (
	"net/http"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
)

func TestABrowserKeepsItsSessionInACookie(t *testing.T) {
	const kept = "tipcache-session="
	const form = "; Path=/; HttpOnly; SameSite=Strict"
	trusted := limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	s := startChain(t, proxy.Options{Web: web.Options{SessionCookie: true, Limits: trusted}, Chain: chain.Options{Patience: time.Millisecond}})
	s.chain.hashed("A")
	s.chain.set(func(f *fakeChain) { f.tip.Limit = 300 })
	for _, tt := range []struct {
		what, cookie, set string
		marked            bool
	}{
		{"the first answer", "", at228, false},
		{"what is known", kept + at228, "", false},
		{"an earlier block", "a=b; " + kept + "100", at228, false},
		{"a block that does not come", kept + "250.A00000000000", "", true},
		{"a block beyond belief", kept + "301", at228, false},
		{"a chain that was set back", kept + lostAt228, at228, false},
		{"a cookie that is malformed", kept + "x", at228, false},
		{"a cookie whose hash is malformed", kept + "250.4D0FAE0G", at228, false},
		{"a cookie with text behind its hash", kept + lostAt228 + "!", at228, false},
	} {
		for range 3 { // the lane has no part in it
			got := s.get(t, anyPath, "Cookie", tt.cookie)
			want := tt.set
			if want != "" {
				want = kept + want + form
			}
			got.has(t, "Set-Cookie", want)
			got.has(t, "Cache-Control", "private, no-cache")
			reset := ""
			if tt.cookie == kept+lostAt228 {
				reset = "true"
			}
			got.has(t, "X-Session-Reset", reset)
			if got.status != http.StatusOK || marked(got) != tt.marked {
				t.Errorf("%s: %d, marked: %t", tt.what, got.status, marked(got))
			}
		}
	}
	for _, token := range []string{"", "100", at228, lostAt228} { // beside a cookie that says more
		s.get(t, anyPath, "Cookie", kept+"250.A00000000000", "X-Session", token).has(t, "Set-Cookie", "")
	}
	s.get(t, anyPath, "X-Forwarded-Proto", "https").has(t, "Set-Cookie", kept+at228+"; Path=/; HttpOnly; Secure; SameSite=Strict")
	s.get(t, anyPath, "X-Block-Height", "100").has(t, "Set-Cookie", "")
	s.get(t, anyPath, "X-Block-Height", "100").has(t, "Cache-Control", "private, max-age=86400")
	s.get(t, anyPath+"?since=0").has(t, "Set-Cookie", "")
	s.proxy.SetLimits(limits.Limits{})
	s.get(t, anyPath, "X-Forwarded-Proto", "https").has(t, "Set-Cookie", kept+at228+form)
}

func TestWithoutTheSettingACookieIsNotRead(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Patience: time.Minute}})
	got := s.get(t, anyPath, "Cookie", "tipcache-session=250")
	got.has(t, "Set-Cookie", "")
	got.has(t, "Cache-Control", "public, max-age=1, s-maxage=1")
}

var staleMark = regexp.MustCompile("stale-")

func marked(e exchange) bool {
	return len(e.header["Cache-Status"]) == 1 && staleMark.MatchString(e.header.Get("Cache-Status"))
}
