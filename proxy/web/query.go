package web

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
)

// EditQuery returns a query in which the pairs for which replace returns found are replaced, or removed if instead is "". Names
// are passed decoded, values as they are sent. Semicolons count as separators, because some servers treat them so.
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

// escape matches a valid escape of a byte.
var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// Unescape decodes a name or value of a query. It leaves malformed escapes as they are, so that they hide nothing.
func Unescape(text string) string {
	if !strings.ContainsAny(text, "%+") {
		return text
	}
	return escape.ReplaceAllStringFunc(strings.ReplaceAll(text, "+", " "), func(escaped string) string {
		decoded, _ := hex.DecodeString(escaped[1:])
		return string(decoded)
	})
}

// Given returns the values of a header or a parameter of ours. Empty ones count as absent: some proxies
// empty a header instead of dropping it.
func Given(values []string) []string {
	if !slices.Contains(values, "") {
		return values
	}
	return slices.DeleteFunc(slices.Clone(values), func(value string) bool { return value == "" })
}

// OneValue returns BadInput if the values of a header or parameter differ, for example because a gateway added one.
func OneValue(name string, values []string) error {
	for _, other := range values[1:] {
		if other != values[0] {
			return failure.BadInput("%s is %q and %q; expected one value", name, Short(values[0]), Short(other))
		}
	}
	return nil
}
