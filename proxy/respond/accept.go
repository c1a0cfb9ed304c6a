package respond

import (
	"strings"

	"github.com/tipcache/tipcache/cache/codings"
)

// WantsGzip reports whether a client prefers gzip to the plain text, by the values
// of Accept-Encoding.
func WantsGzip(values []string) bool {
	a := readAccepted(values)
	return a[codings.Gzip] > 0 && a[codings.Gzip] >= a[codings.Identity]
}

// Preference gives the weight of a media type in the values of Accept (RFC 9110), in
// thousandths: the weight of the most specific range that matches. named reports whether a range has
// exactly its name. Without such a header every type has the full weight. What is malformed
// is passed over.
func Preference(values []string, typ string) (weight int, named bool) {
	if len(values) == 0 {
		return fullWeight, false
	}
	whole, _, _ := strings.Cut(typ, "/")
	ranges, best := [...]string{"*/*", whole + "/*", typ}, -1
	for _, value := range values {
		for member := range splitList(value) {
			name, parameters, _ := strings.Cut(member, ";")
			w, ok := weightIn(parameters)
			for rank := max(best, 0); ok && rank < len(ranges); rank++ {
				if strings.EqualFold(strings.TrimSpace(name), ranges[rank]) && (rank > best || w > weight) {
					best, weight = rank, w
				}
			}
		}
	}
	return weight, best == len(ranges)-1
}

// weightIn reads the weight among the parameters of a range.
func weightIn(parameters string) (thousandths int, ok bool) {
	for p := range strings.SplitSeq(parameters, ";") {
		if p = strings.TrimSpace(p); len(p) > 1 && p[0]|0x20 == 'q' && p[1] == '=' {
			return readWeight(p)
		}
	}
	return fullWeight, true
}

// splitList yields the members of a list. Commas within quotes do not separate members.
func splitList(value string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(value); i++ {
			switch {
			case value[i] == '\\' && quoted:
				i++
			case value[i] == '"':
				quoted = !quoted
			case value[i] == ',' && !quoted:
				if !yield(value[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(value[start:])
	}
}
