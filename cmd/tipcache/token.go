package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// openPaths are those that machines ask, and that tell nothing worth hiding.
var openPaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// guarded requires the admin token, where there is one, for all but
// openPaths. Pages of a browser elsewhere may not change anything with or without it.
func (s *service) guarded(h http.Handler) http.Handler {
	checked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := s.adminToken.Load(); want != nil && !openPaths[r.URL.Path] && !bears(r, want) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="tipcache admin"`)
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "the admin token is required: Authorization: Bearer TOKEN"})
			return
		}
		h.ServeHTTP(w, r)
	})
	return http.NewCrossOriginProtection().Handler(checked)
}

// bears compares digests, so that how long it takes tells nothing of the token.
func bears(r *http.Request, want *[sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// setAdminToken puts a token in force; none, or an empty one, requires nothing.
func (s *service) setAdminToken(token string) {
	if token == "" || token == "none" {
		s.adminToken.Store(nil)
		return
	}
	digest := sha256.Sum256([]byte(token))
	s.adminToken.Store(&digest)
}
