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

// EditQuery is a query with something else in place of the pairs that replace finds, or
// nothing. A name is given decoded, a value as it stands. Semicolons, which some take for
// separators, are such.
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

// Unescape decodes what it can of a name or a value in a query: what is malformed is no
// reason to let it pass.
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

// WithQuery is a shallow copy of a request with another query.
func WithQuery(r *http.Request, query string) *http.Request {
	edited, u := *r, *r.URL
	u.RawQuery = query
	edited.URL, edited.RequestURI = &u, respond.BaseOf(r)+u.RequestURI()
	return &edited
}

// A Taking says of a parameter of a query, whose name is decoded, as what it is taken from the request, "" for
// not, or what is to stand in its place, "" for itself.
type Taking func(name, rawValue string) (as, instead string)

// Without is the request without the parameters that are for this server alone: no node, no key of the cache
// and no log has them. Taken gives them.
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
