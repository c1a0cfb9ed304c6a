package web

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/tipcache/tipcache/proxy/session"
)

// sessionCookie carries the session of a browser.
const sessionCookie = "tipcache-session"

// CookieSession is the session that a request's cookie has, zero for none and for one that
// is malformed; on says whether cookies carry sessions here.
func (s *Stack) CookieSession(r *http.Request) (t session.Token, on bool) {
	if !s.o.SessionCookie {
		return t, false
	}
	if sent, err := r.Cookie(sessionCookie); err == nil {
		t, _ = session.Parse(sent.Value)
	}
	return t, true
}

// SetCookieSession has the browser keep a session. It sends it back from pages of the same
// site alone.
func (s *Stack) SetCookieSession(w http.ResponseWriter, r *http.Request, t session.Token) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: t.String(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.isSecure(r),
	})
}

// isSecure tells whether the client came by TLS: to us, or to a proxy that is trusted.
func (s *Stack) isSecure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	by, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && strings.EqualFold(strings.TrimSpace(by), "https") && s.Trusts(peer.Addr().Unmap())
}
