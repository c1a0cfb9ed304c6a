package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// machinePaths are asked by machines, under whatever name they know the process,
// and tell nothing worth hiding.
var machinePaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// digest is a token's: the token itself is not kept.
type digest [sha256.Size]byte

// guard requires the token for all but machinePaths and the page, which asks for
// it. Without a token a Host must be an address or localhost: a name could be
// pointed here by a hostile page, which would then read the responses.
func (h *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := h.token.Load()
		switch {
		case machinePaths[r.URL.Path]:
		case want == nil && !isLocalName(r.Host):
			WriteJSON(w, http.StatusForbidden, map[string]string{
				"error": "without an admin token this is served under an IP address or localhost only: set admin_token, or ask by address"})
			return
		case want != nil && !h.pages[r.URL.Path] && !bears(r, want):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tipcache admin"`)
			WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": "the admin token is required: Authorization: Bearer TOKEN"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocalName reports whether no name server had a say in a Host.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// bears compares digests, so that how long it takes tells nothing of the token.
func bears(r *http.Request, want *digest) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// SetToken puts a token in force, from the next request on; none, or an empty one,
// requires nothing.
func (h *Handler) SetToken(token string) {
	if token == "" || token == "none" {
		h.token.Store(nil)
		return
	}
	d := digest(sha256.Sum256([]byte(token)))
	h.token.Store(&d)
}
