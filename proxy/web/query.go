package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/respond"
)

// EditQuery returns a query in which the pairs that replace finds are replaced, or removed if instead is "". Names are passed
// decoded, values as they are sent. Semicolons count as separators, because some servers treat them so.
func EditQuery(query string, replace func(name, rawValue string) (instead string, found bool)) (rest string, replaced bool) {
	var kept []byte
	copied := 0
	for start := 0; start < len(query); {
		end := start + 1
		for end < len(query) && query[end] != '&' && query[end] != ';' {
			end++
		}
		rawName, rawValue, _ := strings.Cut(strings.TrimLeft(query[start:end], "&;"), "=") // the separator is before it
		if instead, found := replace(Unescape(rawName), rawValue); found {
			kept = append(kept, query[copied:start]...)
			if instead != "" {
				kept = append(append(kept, '&'), instead...)
			}
			replaced, copied = true, end
		}
		start = end
	}
	if !replaced {
		return query, false
	}
	return strings.TrimLeft(string(append(kept, query[copied:]...)), "&;"), true
}

// Unescape decodes a name or value of a query. It leaves malformed escapes as they are, so that they hide nothing.
func Unescape(text string) string {
	if !strings.ContainsAny(text, "%+") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(code))
				i += 2
				continue
			}
		}
		if text[i] == '+' {
			b.WriteByte(' ')
		} else {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// WithQuery returns a shallow copy of a request with another query.
func WithQuery(r *http.Request, query string) *http.Request {
	edited, u := *r, *r.URL
	u.RawQuery = query
	edited.URL, edited.RequestURI = &u, respond.BaseOf(r)+u.RequestURI()
	return &edited
}

// A Taking decides about a parameter of a query, whose name is decoded. It returns the name under which the parameter is taken
// from the request, "" to leave it, or a pair that replaces it.
type Taking func(name, rawValue string) (as, instead string)

// Without returns the request without the parameters that are only for this server, so that nodes, cache keys and logs do not
// have them. Taken returns them.
func Without(r *http.Request, takings ...Taking) *http.Request {
	taken := url.Values{}
	maps.Copy(taken, Taken(r))
	query, found := EditQuery(r.URL.RawQuery, func(name, rawValue string) (instead string, found bool) {
		for _, take := range takings {
			as, instead := take(name, rawValue)
			if as != "" {
				taken[as] = append(slices.Clip(taken[as]), Unescape(rawValue))
			}
			if as != "" || instead != "" {
				return instead, true
			}
		}
		return "", false
	})
	if !found {
		return r
	}
	return WithQuery(r.WithContext(context.WithValue(r.Context(), takenKey{}, taken)), query)
}

type takenKey struct{}

// Taken returns the parameters that were removed from a request, or from the request that it is a part of, decoded.
func Taken(r *http.Request) url.Values {
	taken, _ := r.Context().Value(takenKey{}).(url.Values)
	return taken
}
