package respond

import (
	"context"
	"net/http"
	"strings"
)

type baseKey struct{}

// Below returns a request without the prefix base of its path. BaseOf returns base. RequestURI is unchanged, so that it
// distinguishes requests below different bases.
func Below(r *http.Request, base string) *http.Request {
	below, u := r.WithContext(context.WithValue(r.Context(), baseKey{}, base)), *r.URL
	if u.Path = u.Path[len(base):]; u.Path == "" {
		u.Path = "/"
	}
	u.RawPath = strings.TrimPrefix(u.RawPath, base) // ignored unless it encodes Path
	below.URL = &u
	return below
}

// BaseOf returns the base path that a request was sent below, "" for none.
func BaseOf(r *http.Request) string {
	base, _ := r.Context().Value(baseKey{}).(string)
	return base
}
