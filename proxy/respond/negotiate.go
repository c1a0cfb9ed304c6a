package respond

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/proxy/session"
)

// preferences are the parts of a request that choose the form of the response.
type preferences struct {
	codings accepted
	tags    []string // If-None-Match
	head    bool
}

// A Responder writes responses from the cache.
type Responder struct {
	bodies   *cache.Cache // encodes bodies
	byOrigin bool         // responses differ by the Origin of the request
}

// New returns a Responder. byOrigin says that responses differ by the Origin of the request.
func New(bodies *cache.Cache, byOrigin bool) *Responder { return &Responder{bodies, byOrigin} }

// negotiate chooses the coding, or returns 304 if the client has the content.
func (rs *Responder) negotiate(h *headers, a *Response, from *preferences) (status int, body []byte) {
	e := a.Entry
	coding := from.codings.choose(e.Content)
	if has, ok := clientHas(from.tags, e.ETag, coding); ok {
		h.setTag(e.ETag, has)
		return http.StatusNotModified, nil
	}
	body, made := rs.encoded(a, coding, from)
	if size := len(e.Body); made != coding && coding.Costly(size) { // serve another coding until it is ready
		body, made = rs.encoded(a, from.codings.best(size, true), from)
	}
	coding = made
	if coding != codings.Identity {
		h.set("Content-Encoding", codings.Names[coding])
	}
	if body == nil && from.head {
		h.set("Content-Type", e.Type) // do not encode a body to send its length
	} else {
		h.setBody(e.Type, body)
	}
	h.setTag(e.ETag, coding)
	return http.StatusOK, body
}

// encoded returns the body of a response in a coding, or plain.
func (rs *Responder) encoded(a *Response, coding codings.Coding, from *preferences) (body []byte, as codings.Coding) {
	if coding == codings.Identity {
		return a.Entry.Body, coding
	}
	return rs.bodies.Encoded(a.Key, a.Entry.Content, coding, from.codings[codings.Identity] == 0, from.head)
}

// tagEnds end the validator of a body in each coding: different bytes need different strong validators.
var tagEnds = [len(preferred)]string{codings.Identity: `"`, codings.Gzip: `-gzip"`, codings.Zstd: `-zstd"`, codings.Brotli: `-br"`}

func (h *headers) setTag(etag string, coding codings.Coding) {
	if coding == codings.Identity {
		h.set("Etag", etag)
		return
	}
	text := append(h.begin("Etag"), strings.TrimSuffix(etag, `"`)...)
	h.finish(append(text, tagEnds[coding]...))
}

// clientHas reports by the values of If-None-Match whether the client has the content, and in which coding: preferably
// the one it would get now. Tags are compared weakly (RFC 9110): a compressing proxy on the way may have weakened them.
func clientHas(tags []string, etag string, now codings.Coding) (coding codings.Coding, ok bool) {
	for _, value := range tags {
		for tag := range strings.SplitSeq(value, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			in, known := codingOfTag(tag, etag)
			if tag == "*" || known && in == now {
				return now, true
			}
			if known && !ok {
				coding, ok = in, true
			}
		}
	}
	return coding, ok
}

// codingOfTag returns the coding in which the content has the tag.
func codingOfTag(tag, etag string) (codings.Coding, bool) {
	end, ok := strings.CutPrefix(tag, strings.TrimSuffix(strings.TrimPrefix(etag, "W/"), `"`))
	if !ok || etag == "" {
		return 0, false
	}
	for coding, tagEnd := range tagEnds {
		if end == tagEnd {
			return codings.Coding(coding), true
		}
	}
	return 0, false
}

// setVary sets Vary: the request headers of the interface, and our own.
func (rs *Responder) setVary(h *headers, own string, inSession bool) {
	text := h.begin("Vary")
	if own != "" {
		text = append(append(text, own...), ", "...)
	}
	text = append(text, "Accept-Encoding"...)
	if inSession {
		text = append(text, ", "+session.Header...)
	}
	if rs.byOrigin {
		text = append(text, ", Origin"...)
	}
	h.finish(text)
}

const (
	minEncoded = 1 << 10 // bytes; a smaller body fits into the packet with its headers
	largeBody  = 1 << 20 // bytes; for longer bodies, fast compression matters more than size
)

// Codings in order of preference, if the client has none. br compresses short bodies best, but takes seven times as long as
// zstd: 0.5 ms for a list of validators, 17 ms for all delegations, and 70 ms for 2 MB.
var (
	preferred         = [...]codings.Coding{codings.Brotli, codings.Zstd, codings.Gzip, codings.Identity}
	preferredForLong  = [...]codings.Coding{codings.Zstd, codings.Brotli, codings.Gzip, codings.Identity}
	preferredForLarge = [...]codings.Coding{codings.Zstd, codings.Gzip, codings.Brotli, codings.Identity}
)

// fullWeight is the weight of a member without q.
const fullWeight = 1000

// choose returns the coding for a content. A long one gets brotli only if it was requested or encoded before.
func (a accepted) choose(c *cache.Content) codings.Coding {
	once := len(c.Body) >= codings.Long && !c.RequestedBefore() && c.Encodings[codings.Brotli].Load() == nil
	return a.best(len(c.Body), once)
}

// best returns the coding for a body. once means that the body may serve this request alone: it does not get brotli,
// which is slow, because any client can request any number of such bodies. A client that accepts no coding gets the
// plain body, which serves it better than a refusal.
func (a accepted) best(size int, once bool) codings.Coding {
	if size < minEncoded && a[codings.Identity] > 0 {
		return codings.Identity
	}
	order := preferred
	switch {
	case size >= largeBody || once:
		order = preferredForLarge
	case size >= codings.Long:
		order = preferredForLong
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
