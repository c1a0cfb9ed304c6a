package web

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/proxy/limits"
)

// An asker is what of a request decides the form of its answer.
type asker struct {
	codings accepted
	tags    []string // If-None-Match
	head    bool
}

func askerOf(r *http.Request) asker {
	return asker{readAccepted(r.Header["Accept-Encoding"]), r.Header["If-None-Match"], r.Method == http.MethodHead}
}

// A memory keeps the bodies of answers in their content codings; *cache.Cache does.
type memory interface {
	limits.Memory
	// MemoryBytes is how many bytes there are to be set aside, and for what is kept.
	MemoryBytes() int64
	// Encoded returns the content's body in a coding, or plain where the coding would
	// have to be waited for and is no must. What is encoded is kept with the entry of
	// the key. Nothing is made for a peek: a body that was not made before is nil.
	Encoded(key string, content *cache.Content, coding codings.Coding, must, peek bool) (body []byte, as codings.Coding)
}

// A responder writes answers.
type responder struct {
	bodies     memory
	byOrigin   bool // the answer to one origin is not that to another
	resettable bool // no answer is called immutable

	varies atomic.Pointer[map[varying]string] // values of Vary: texts that stay the same are sent in less time
}

// negotiate chooses the coding, or finds that the client has the content.
func (rs *responder) negotiate(h *headers, a *Answer, from *asker) (status int, body []byte) {
	e := a.Entry
	costly := codings.Brotli.Costly(len(e.Body))
	coding := from.codings.best(len(e.Body), costly && !e.Again() && e.Made[codings.Brotli].Load() == nil)
	if has, ok := clientHas(from.tags, e.ETag, coding); ok {
		h.setTag(e.ETag, has)
		return http.StatusNotModified, nil
	}
	body, made := rs.encoded(a, coding, from)
	if made == codings.Identity && coding == codings.Brotli && costly { // until it is made
		body, made = rs.encoded(a, from.codings.best(len(e.Body), true), from)
	}
	coding = made
	if coding != codings.Identity {
		h.set("Content-Encoding", codings.Names[coding])
	}
	if body == nil && from.head {
		h.set("Content-Type", e.Type) // no body is made to tell its length
	} else {
		h.setBody(e.Type, body)
	}
	h.setTag(e.ETag, coding)
	return http.StatusOK, body
}

// encoded is the body of an answer in a coding, or plain.
func (rs *responder) encoded(a *Answer, coding codings.Coding, from *asker) (body []byte, as codings.Coding) {
	if coding == codings.Identity {
		return a.Entry.Body, coding
	}
	if made := a.Entry.Coded(coding); made != nil {
		return made, coding
	}
	return rs.bodies.Encoded(a.Key, a.Entry.Content, coding, from.codings[codings.Identity] == 0, from.head)
}

const (
	minEncoded = 1 << 10 // bytes; a smaller body fits into the packet that its headers are in
	largeBody  = 1 << 20 // bytes; from here on speed counts for more than size
)

// Codings in the order they are preferred in where the client has no
// preference. br makes the least of a body, but takes seven times as long as
// zstd: 0.5 ms for a list of validators, 17 ms for all delegations, and 70 ms for 2 MB.
var (
	preferred         = [...]codings.Coding{codings.Brotli, codings.Zstd, codings.Gzip, codings.Identity}
	preferredForLarge = [...]codings.Coding{codings.Zstd, codings.Gzip, codings.Brotli, codings.Identity}
)

// accepted is what a client thinks of each coding: its weight in thousandths,
// 0 for what it does not accept.
type accepted [len(preferred)]int

// readAccepted reads the values of Accept-Encoding (RFC 9110). What is
// malformed is passed over. A client that sends no such header gets the plain
// body, though every coding would be allowed: it may not know any.
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
			a[coding] = 1 // acceptable, and less so than what is named
		default:
			a[coding] = 0
		}
	}
	return a
}

// WantsGzip tells whether a client would rather have gzip than the plain text, by the values
// of Accept-Encoding.
func WantsGzip(values []string) bool {
	a := readAccepted(values)
	return a[codings.Gzip] > 0 && a[codings.Gzip] >= a[codings.Identity]
}

func codingOf(name string) (coding codings.Coding, known bool) {
	switch {
	case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
		return codings.Gzip, true
	case strings.EqualFold(name, "br"):
		return codings.Brotli, true
	case strings.EqualFold(name, "zstd"):
		return codings.Zstd, true
	case strings.EqualFold(name, "identity"):
		return codings.Identity, true
	}
	return 0, false
}

// readWeight reads "q=" and a number from 0 to 1 with at most three decimals;
// nothing at all is 1.
func readWeight(parameter string) (thousandths int, ok bool) {
	if parameter == "" {
		return fullWeight, true
	}
	if len(parameter) < 3 || len(parameter) > len("q=0.000") || parameter[0]|0x20 != 'q' || parameter[1] != '=' {
		return 0, false
	}
	whole, decimals := parameter[2], parameter[3:]
	if whole != '0' && whole != '1' || decimals != "" && decimals[0] != '.' {
		return 0, false
	}
	weight, unit := int(whole-'0')*fullWeight, 100
	for _, digit := range []byte(strings.TrimPrefix(decimals, ".")) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		weight += int(digit-'0') * unit
		unit /= 10
	}
	return weight, weight <= fullWeight
}

// fullWeight is that of what is named without one.
const fullWeight = 1000

// best chooses the coding for a body of so many bytes. Where br takes long it is for
// bodies that are asked for again, and not for one that may be the answer to this
// request alone (once): any client can ask for any number of those. A client that
// accepts none gets the plain body: that serves it better than a refusal.
func (a accepted) best(size int, once bool) codings.Coding {
	if size < minEncoded && a[codings.Identity] > 0 {
		return codings.Identity
	}
	order := preferred
	if size >= largeBody || once {
		order = preferredForLarge
	}
	if once && a[codings.Identity] > 0 {
		a[codings.Brotli] = 0
	}
	best, weight := codings.Identity, 0
	for _, coding := range order {
		if a[coding] > weight {
			best, weight = coding, a[coding]
		}
	}
	return best
}

// Preference gives the weight of a media type in the values of Accept (RFC 9110), in
// thousandths: that of the most specific range it is in. named tells whether a range has
// its very name. Without such a header every type has the full weight. What is malformed
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
			told, ok := weightIn(parameters)
			for rank := max(best, 0); ok && rank < len(ranges); rank++ {
				if strings.EqualFold(strings.TrimSpace(name), ranges[rank]) && (rank > best || told > weight) {
					best, weight = rank, told
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

// splitList gives the members of a list. A comma within quotes is none of the list's.
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
