package respond

import (
	"cmp"
	"context"
	"net/http"
	"strings"
)

type baseKey struct{}

// Below returns a request without the prefix base of its path, and whether it has that prefix. Doubled slashes in the prefix
// count as one. BaseOf returns base. RequestURI is unchanged, so that it distinguishes requests below different bases.
func Below(r *http.Request, base string) (*http.Request, bool) {
	path, ok := cutBase(r.URL.Path, base)
	if !ok {
		return r, false
	}
	below, u := r.WithContext(context.WithValue(r.Context(), baseKey{}, base)), *r.URL
	u.Path = cmp.Or(path, "/")
	u.RawPath, _ = cutBase(u.RawPath, base) // ignored unless it encodes Path
	below.URL = &u
	return below, true
}

// cutBase returns the rest of a path below base, and whether it is below it.
func cutBase(path, base string) (rest string, ok bool) {
	for _, c := range []byte(base) {
		if path == "" || path[0] != c {
			return "", false
		}
		path = path[1:]
		if c == '/' {
			path = strings.TrimLeft(path, "/")
		}
	}
	return path, path == "" || path[0] == '/'
}

// BaseOf returns the base path that a request was sent below, "" for none.
func BaseOf(r *http.Request) string {
	base, _ := r.Context().Value(baseKey{}).(string)
	return base
}
