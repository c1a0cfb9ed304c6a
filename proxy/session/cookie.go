package session

import (
	"net/http"
	"net/url"

	"github.com/tipcache/tipcache/upstream/node"
)

// SessionCookies reports whether cookies carry sessions.
func (c *Clients) SessionCookies() bool { return c.useCookies }

// cookieName returns the name of the cookie for sessions with a chain. Several chains may have one host name.
func cookieName(chainID string) string {
	return "tipcache-session-" + url.QueryEscape(chainID)
}

// CookieSession returns the session with a chain in the cookie of a request. It is zero if there is none, if it is malformed,
// if the chain cannot have reached its block, or if cookies carry no sessions.
func (c *Clients) CookieSession(r *http.Request, chainID string, tip node.Tip) (t Token) {
	if !c.useCookies {
		return t
	}
	if sent, err := r.Cookie(cookieName(chainID)); err == nil {
		t, _ = ParseToken(sent.Value)
	}
	if !tip.Allows(t.Height) {
		return Token{}
	}
	return t
}

// SetCookieSession sets the session cookie of a chain. Browsers send it back only from pages of the same site.
func (c *Clients) SetCookieSession(w http.ResponseWriter, r *http.Request, chainID string, t Token) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(chainID), Value: t.String(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.IsSecure(r),
	})
}
