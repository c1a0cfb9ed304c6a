package web

import (
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/account"
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
	// Account is the account that request bodies are in.
	Account() *account.Account
	// Encoded returns the content's body in a coding, or plain where the coding would
	// have to be waited for and is no must. What is encoded is kept with the entry of
	// the key. Nothing is made for a peek: a body that was not made before is nil.
	Encoded(key string, content *cache.Content, coding codings.Coding, must, peek bool) (body []byte, as codings.Coding)
}

// A responder writes answers.
type responder struct {
	bodies   memory
	byOrigin bool // the answer to one origin is not that to another
}

// negotiate chooses the coding, or finds that the client has the content.
func (rs *responder) negotiate(h *headers, a *Answer, from *asker) (status int, body []byte) {
	e := a.Entry
	coding := from.codings.choose(e.Content)
	if has, ok := clientHas(from.tags, e.ETag, coding); ok {
		h.setTag(e.ETag, has)
		return http.StatusNotModified, nil
	}
	body, made := rs.encoded(a, coding, from)
	if size := len(e.Body); made != coding && coding.Costly(size) { // until it is made
		body, made = rs.encoded(a, from.codings.best(size, true), from)
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
	return rs.bodies.Encoded(a.Key, a.Entry.Content, coding, from.codings[codings.Identity] == 0, from.head)
}

// tagEnds end the validator of a body in each coding. In each it is another
// text of bytes, so it needs another strong validator.
var tagEnds = [len(preferred)]string{codings.Identity: `"`, codings.Gzip: `-gzip"`, codings.Zstd: `-zstd"`, codings.Brotli: `-br"`}

// setTag sets the validator of the content in a coding.
func (h *headers) setTag(etag string, coding codings.Coding) {
	if coding == codings.Identity {
		h.set("Etag", etag)
		return
	}
	text := append(h.begin("Etag"), strings.TrimSuffix(etag, `"`)...)
	h.finish(append(text, tagEnds[coding]...))
}

// clientHas finds out from the values of If-None-Match whether the client has the content, and in
// which coding: the one it would get now, if it has that. Having it in any is as
// good. Tags are compared weakly, as RFC 9110 says: a compressing proxy on the
// way may have weakened them.
func clientHas(tags []string, etag string, now codings.Coding) (coding codings.Coding, ok bool) {
	for _, value := range tags {
		for tag := range strings.SplitSeq(value, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			in, known := tagged(tag, etag)
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

// tagged tells in which coding a tag is the content's.
func tagged(tag, etag string) (codings.Coding, bool) {
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

// setVary names the request headers that choose between answers of one URL: those of the
// interface, and our own.
func (rs *responder) setVary(h *headers, own string, session bool) {
	text := h.begin("Vary")
	if own != "" {
		text = append(append(text, own...), ", "...)
	}
	text = append(text, "Accept-Encoding"...)
	if session {
		text = append(text, ", "+SessionHeader...)
	}
	if rs.byOrigin {
		text = append(text, ", Origin"...)
	}
	h.finish(text)
}

const (
	minEncoded = 1 << 10 // bytes; a smaller body fits into the packet that its headers are in
	largeBody  = 1 << 20 // bytes; from here on speed counts for more than size
)

// Codings in the order they are preferred in where the client has no
// preference. br makes the least of a short body, but takes seven times as long as
// zstd: 0.5 ms for a list of validators, 17 ms for all delegations, and 70 ms for 2 MB.
var (
	preferred         = [...]codings.Coding{codings.Brotli, codings.Zstd, codings.Gzip, codings.Identity}
	preferredForLong  = [...]codings.Coding{codings.Zstd, codings.Brotli, codings.Gzip, codings.Identity}
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

// choose chooses the coding for a content. One that is long has brotli only once it is asked for again.
func (a accepted) choose(c *cache.Content) codings.Coding {
	once := len(c.Body) >= codings.Long && !c.Again() && c.Made[codings.Brotli].Load() == nil
	return a.best(len(c.Body), once)
}

// best chooses the coding for a body of so many bytes. Where br takes long it is for
// bodies that are asked for again, and not for one that may be the answer to this
// request alone (once): any client can ask for any number of those. A client that
// accepts none gets the plain body: that serves it better than a refusal.
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
