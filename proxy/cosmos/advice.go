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

// Varies reports whether a key of the cache, without the parameters, or a method of gRPC belongs to a row whose responses
// differ in order from call to call, in some releases of the SDK. (ListAllInterfaces is another such method, but reflection
// is never cached.)
func Varies(keyOrMethod string) bool {
	return keyOrMethod == keyPrefix+"/cosmos/auth/v1beta1/module_accounts" || keyOrMethod == "/cosmos.auth.v1beta1.Query/ModuleAccounts"
}

// RowOfPath returns the line for chain.rows that would pass the values of a cache key through. It returns "" for a key of another
// API, and for a path whose values are known to be part of the state.
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
	case slices.ContainsFunc(table(), func(r dialect.Row) bool { return r.Name == ep.Name }):
		return ""
	default:
		return rowLine(ep.Pattern, " "+dialect.Anything)
	}
}

// RowOfMethod returns the same for the values of a method of gRPC.
func RowOfMethod(method string) string {
	if slices.ContainsFunc(table(), func(r dialect.Row) bool { return r.Method == method }) {
		return ""
	}
	return rowLine(method, "")
}

// rowLine returns a row for a pattern or a method, with a name made of its words. It returns "" if the text cannot be part of a
// row.
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
