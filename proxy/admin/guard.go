package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// machinePaths are served without a token and under any host name. They hold nothing confidential.
var machinePaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// guard requires the token for all paths except machinePaths and the page, which has a field for it. If
// no token is set, the Host must be an IP address or localhost: a hostile page could point a name of its
// own here to read the responses (DNS rebinding). Nor may pages of other sites start a profile then.
func (h *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isPage, isOpen := h.pages[r.URL.Path], h.token.Load() == nil
		switch {
		case machinePaths[r.URL.Path]:
		case isOpen && !isLocalName(r.Host):
			WriteJSON(w, http.StatusForbidden, map[string]string{
				"error": "without an admin token this is served under an IP address or localhost only: set admin_token, or use an address"})
			return
		case isOpen && !isPage && r.Header.Get("Sec-Fetch-Site") == "cross-site":
			WriteJSON(w, http.StatusForbidden, map[string]string{"error": "without an admin token this is not served to pages of other sites"})
			return
		case !isPage && !h.admits(r):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tipcache admin"`)
			problem := "the admin token (setting admin_token) is required: Authorization: Bearer TOKEN"
			if r.Header.Get("Authorization") != "" {
				problem = "Authorization does not have the admin token (setting admin_token)"
			}
			WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": problem})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocalName reports whether a Host is an IP address or localhost, so that no name server resolved it.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// admits reports whether a request has the token, if one is required. It compares digests in constant time.
func (h *Handler) admits(r *http.Request) bool {
	want := h.token.Load()
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	return want == nil || strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// SetToken replaces the required token, of which only the digest is kept. none and "" mean that none is
// required.
func (h *Handler) SetToken(token string) {
	if token == "" || token == "none" {
		h.token.Store(nil)
		return
	}
	digest := sha256.Sum256([]byte(token))
	h.token.Store(&digest)
}
