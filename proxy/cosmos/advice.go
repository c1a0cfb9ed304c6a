package cosmos

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/tipcache/tipcache/proxy/dialect"
)

// varying are the rows whose answers come in another order from call to call, at every node of some release of the
// SDK. (ListAllInterfaces is another such method; answers of reflection are never cached.)
var varying = []string{"auth_module_accounts"}

// Varies reports whether a key of the cache, without the parameters, or a method of gRPC belongs to such a row.
func Varies(keyOrMethod string) bool {
	return slices.ContainsFunc(table, func(r Row) bool {
		return slices.Contains(varying, r.Name) && (keyOrMethod == keyPrefix+r.Pattern || keyOrMethod == r.method())
	})
}

// RowOfPath returns the line of chain.rows by which the values of a cache key would be passed through. It is "" for a
// key of another interface, and for a path of the modules whose values are known to be the state's.
func (h *Handler) RowOfPath(key string) string {
	text, ok := strings.CutPrefix(key, keyPrefix+"/")
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "@")
	path, err := url.PathUnescape("/" + text)
	if !ok || err != nil {
		return ""
	}
	ep := h.Endpoint(&http.Request{URL: &url.URL{Path: path}})
	switch {
	case ep == nil:
		return ""
	case ep.Name == dialect.Other:
		return rowLine(path, " "+dialect.Anything)
	case slices.ContainsFunc(table, func(r Row) bool { return r.Name == ep.Name }):
		return ""
	default:
		return rowLine(ep.Pattern, " "+dialect.Anything)
	}
}

// RowOfMethod returns the same for the values of a method of gRPC.
func RowOfMethod(method string) string {
	if slices.ContainsFunc(table, func(r Row) bool { return r.method() == method }) {
		return ""
	}
	return rowLine(method, "")
}

// rowLine writes a row for a pattern, or a method, under a name made of its words. It is "" where the text cannot
// stand in a row.
func rowLine(pattern, parameters string) string {
	if strings.ContainsFunc(pattern, unicode.IsSpace) {
		return ""
	}
	words := strings.FieldsFunc(pattern, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	line := fmt.Sprintf("%s %s never cheap%s", strings.Join(words, "_"), pattern, parameters)
	if _, err := ParseRow(line); err != nil {
		return ""
	}
	return line
}
