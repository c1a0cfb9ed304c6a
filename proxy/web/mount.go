package web

import (
	"cmp"
	"strings"
)

// A Mount says which paths an engine serves, and how they are spelled.
type Mount struct {
	Base  string // base path, without a slash at its end; "" for the root
	Own   string // prefix of paths that only the root serves, even if they begin with Base; "" for none
	Exact bool   // paths keep surplus slashes, which distinguish them, unless they begin with Own
}

// Enter reports whether the engine serves the path of a request, whose URL it then makes relative to the base and tidy.
func (e *Engine) Enter(r *Request) bool {
	if !e.mount.cut(r) {
		return false
	}
	e.Tidy(r)
	return true
}

// cut reports whether the path of a request is below the base, and makes it relative to that. Doubled slashes in the base count as one.
// RequestURI is unchanged, so that it distinguishes requests below different bases.
func (m *Mount) cut(r *Request) bool {
	if m == nil || m.Base == "" && r.URL.Path != "" { // it is "" in http://host, which means the root
		return true
	}
	path, isBelow := cutBase(r.URL.Path, m.Base)
	if !isBelow || m.Own != "" && strings.HasPrefix(TidyPath(r.URL.Path), m.Own) {
		return false
	}
	u := *r.URL
	u.Path = cmp.Or(path, "/")
	u.RawPath, _ = cutBase(u.RawPath, m.Base) // ignored unless it encodes Path
	r.Base = m.Base
	r.setURL(&u)
	return true
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

// Tidy removes our own parameters, such as ?stream.* and ?since, from the query of a request. It also removes trailing and doubled
// slashes from the path below the base. A node of Story would answer such a path with a 404 or an empty redirect. For a node of the SDK
// it is another path, which stays unchanged.
func (e *Engine) Tidy(r *Request) {
	if e.mount == nil {
		return
	}
	if 0 < len(r.URL.RawQuery) && len(r.URL.RawQuery) <= MaxURL { // a longer one is refused
		r.RemoveParameters(FilterParameter)
	}
	path := TidyPath(r.URL.Path)
	if path == r.URL.Path || e.mount.Exact && (e.mount.Own == "" || !strings.HasPrefix(path, e.mount.Own)) {
		return
	}
	u := *r.URL
	u.Path, u.RawPath = path, ""
	r.setURL(&u)
}

// TidyPath removes doubled slashes and a trailing one.
func TidyPath(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}
