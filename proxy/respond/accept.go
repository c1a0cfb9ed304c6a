package respond

import (
	"math"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cache/codings"
)

// WantsGzip reports whether a client with these values of Accept-Encoding prefers gzip to the plain text.
func WantsGzip(values []string) bool {
	a := readAccepted(values)
	return a[codings.Gzip] > 0 && a[codings.Gzip] >= a[codings.Identity]
}

// Preference returns the weight of a media type by the values of Accept (RFC 9110), in thousandths: the weight of the most
// specific range that matches. named reports whether a range has exactly its name. Without such a header every type has the
// full weight. Malformed ranges are ignored, and commas within quotes separate ranges, because no client sends any.
func Preference(values []string, typ string) (weight int, named bool) {
	if len(values) == 0 {
		return fullWeight, false
	}
	whole, _, _ := strings.Cut(typ, "/")
	ranges, best := [...]string{"*/*", whole + "/*", typ}, -1
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
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

// accepted is the weight that a client gives to each coding, in thousandths. 0 means not accepted.
type accepted [len(preferred)]int

// readAccepted reads the values of Accept-Encoding (RFC 9110) and ignores what is malformed. A client that sends no
// such header gets the plain body, though RFC 9110 allows every coding: it may not know any.
func readAccepted(values []string) accepted {
	const unsaid = -1
	others := unsaid
	a := accepted{unsaid, unsaid, unsaid, unsaid}
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(member, ";")
			weight, ok := readWeight(strings.TrimSpace(parameters))
			if !ok {
				continue
			}
			if name = strings.TrimSpace(name); name == "*" {
				others = weight
			} else if coding, known := codingOf(name); known {
				a[coding] = weight
			}
		}
	}
	for coding, weight := range a {
		switch {
		case weight != unsaid:
		case others != unsaid:
			a[coding] = others
		case codings.Coding(coding) == codings.Identity:
			a[coding] = 1 // acceptable, but less than a named coding
		default:
			a[coding] = 0
		}
	}
	return a
}

func codingOf(name string) (coding codings.Coding, known bool) {
	for coding, known := range codings.Names {
		if len(name) == len(known) && strings.EqualFold(name, known) {
			return codings.Coding(coding), true
		}
	}
	return codings.Gzip, strings.EqualFold(name, "x-gzip")
}

// readWeight reads "q=" and a number from 0 to 1 with at most three decimals. "" means 1.
func readWeight(parameter string) (thousandths int, ok bool) {
	if parameter == "" {
		return fullWeight, true
	}
	if len(parameter) < 3 || len(parameter) > len("q=0.000") || parameter[0]|0x20 != 'q' || parameter[1] != '=' {
		return 0, false
	}
	weight, err := strconv.ParseFloat(parameter[2:], 64)
	return int(math.Round(weight * fullWeight)), err == nil && weight >= 0 && weight <= 1
}
