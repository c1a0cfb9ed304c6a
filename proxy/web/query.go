package web

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
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

// ReadBlock returns the block that a header names, 0 for none. A malformed one, for which nodes read the latest, is BadInput.
func ReadBlock(name string, values []string) (int64, error) {
	if values = Given(values); len(values) == 0 {
		return 0, nil
	}
	if err := OneValue(name, values); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil || n == 0 {
		return 0, failure.BadInput("%s is %q; expected a positive integer", name, Short(values[0]))
	}
	return int64(n), nil
}

// MinEVMParameter is the query parameter with the meaning of X-Min-Evm-Block.
const MinEVMParameter = "x-min-evm-block"

// ReadMinEVM returns the execution chain's block that a response must include; 0 for none. The error is BadInput.
func ReadMinEVM(r *Request) (block int64, err error) {
	return ReadEither(r, respond.MinEVMHeader, MinEVMParameter, ReadBlock)
}

// ReadEither reads a header or the parameter with the same meaning, which a [ParameterFilter] has removed. It returns
// BadInput if they differ. read returns the zero value if there is none.
func ReadEither[T comparable](r *Request, header, parameter string, read func(name string, values []string) (T, error)) (value T, err error) {
	if value, err = read(header, r.Header[header]); err != nil {
		return value, err
	}
	inURL, err := read(parameter, r.Options[parameter])
	var none T
	if err != nil || value == none {
		return inURL, err
	}
	if inURL != none && inURL != value {
		err = failure.BadInput("%s is %v and %s is %v: they must be equal", header, value, parameter, inURL)
	}
	return value, err
}
