package chain

import (
	"encoding/base64"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// A pageKeyFormat recognises the raw bytes of a route's page keys. The node
// hands a key out in base64 but understands only the bytes, and what it makes
// of the text is an empty page or a wrong one; so the two are told apart here.
// No format's base64 text has the format itself.
type pageKeyFormat func(raw string) bool

// lengthPrefixed is an address as most of the node's stores key it.
func lengthPrefixed(raw string) bool { return len(raw) == 21 && raw[0] == 20 }

// twoLengthPrefixed is a pair of validators.
func twoLengthPrefixed(raw string) bool {
	return len(raw) == 42 && lengthPrefixed(raw[:21]) && lengthPrefixed(raw[21:])
}

// bareAddress is an address of the index of delegations by validator.
func bareAddress(raw string) bool { return len(raw) == 20 }

// decimalDigits is the id of a period delegation.
func decimalDigits(raw string) bool { return len(raw) <= 20 && allDigits(raw) }

// oneNumber is a place in a queue.
func oneNumber(raw string) bool { return len(raw) == 8 }

// twoNumbers is a height and a period.
func twoNumbers(raw string) bool { return len(raw) == 16 }

// decode gives the raw bytes of a page key that is either those bytes or their
// base64 text: of either alphabet, with or without padding.
func (format pageKeyFormat) decode(value string) (raw string, ok bool) {
	if format(value) {
		return value, true
	}
	text := pageKeyAlphabet.Replace(strings.TrimRight(value, "="))
	bytes, err := base64.RawStdEncoding.DecodeString(text)
	return string(bytes), err == nil && format(string(bytes))
}

// pageKeyAlphabet makes standard base64 of its URL variant, and of a plus sign
// that was read as a space because it was not escaped.
var pageKeyAlphabet = strings.NewReplacer("-", "+", "_", "/", " ", "+")

// Names of the page parameters, in canonical order.
const (
	PageKey        = "pagination.key"
	PageOffset     = "pagination.offset"
	PageLimit      = "pagination.limit"
	PageCountTotal = "pagination.count_total"
	PageReverse    = "pagination.reverse"
)

// Pagination stands in a row for all of them.
const Pagination = "pagination"

// PageNames are their names.
var PageNames = [...]string{PageKey, PageOffset, PageLimit, PageCountTotal, PageReverse}

// nodePageSize is how many items the node puts on a page when it is not told.
const nodePageSize = 100

// A page is what a request asks of a list. The zero value is the node's
// default: the first items, counted.
type page struct {
	key            string // raw bytes
	offset, limit  uint64 // limit 0: the node's default
	count, reverse bool
}

// parsePage reads the page parameters, in the order of PageNames, empty ones like absent
// ones.
func parsePage(format pageKeyFormat, v []given, maxLimit uint64) (p page, err error) {
	if v[0].text != "" {
		var ok bool
		if p.key, ok = format.decode(v[0].text); !ok {
			return p, malformed(PageKey, v[0].text, "the next_key of the page before")
		}
	}
	if p.offset, err = parseUint(PageOffset, v[1].text); err != nil {
		return p, err
	}
	if p.limit, err = parseUint(PageLimit, v[2].text); err != nil {
		return p, err
	}
	if p.count, err = parseBool(PageCountTotal, v[3].text); err != nil {
		return p, err
	}
	if p.reverse, err = parseBool(PageReverse, v[4].text); err != nil {
		return p, err
	}
	return p, p.check(maxLimit)
}

func (p page) check(maxLimit uint64) error {
	if p.limit > maxLimit {
		return web.BadInput("%s is %d; at most %d is served", PageLimit, p.limit, maxLimit)
	}
	if p.key != "" && p.offset > 0 {
		return web.BadInput("only one of %s and %s may be set", PageKey, PageOffset)
	}
	if _, overflow := bits.Add64(p.offset, max(p.limit, nodePageSize), 0); overflow > 0 {
		return web.BadInput("%s and %s together are too large", PageOffset, PageLimit)
	}
	return nil
}

// appendQuery writes the canonical parameters, without those that say what
// the node does anyway: with a key nothing is counted, without a limit everything is.
func (p page) appendQuery(w queryWriter) queryWriter {
	if p.key != "" {
		w = w.name(PageKey)
		w.text = AppendEscaped(w.text, p.key, Unreserved)
	}
	w = w.number(PageOffset, p.offset).number(PageLimit, p.limit)
	return w.flag(PageCountTotal, p.count && p.key == "" && p.limit > 0).flag(PageReverse, p.reverse)
}

func parseUint(name, value string) (uint64, error) {
	if value == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, malformed(name, value, "an unsigned integer")
	}
	return n, nil
}

func parseBool(name, value string) (bool, error) {
	switch strings.ToLower(value) {
	case "", "0", "f", "false":
		return false, nil
	case "1", "t", "true":
		return true, nil
	}
	return false, malformed(name, value, "true or false")
}

// A queryWriter appends parameters to a path.
type queryWriter struct {
	text []byte
	path int // where the path ends
}

func (w queryWriter) name(name string) queryWriter {
	sep := byte('&')
	if len(w.text) == w.path {
		sep = '?'
	}
	w.text = append(append(append(w.text, sep), name...), '=')
	return w
}

// number writes a number that is not zero.
func (w queryWriter) number(name string, n uint64) queryWriter {
	if n > 0 {
		w = w.name(name)
		w.text = strconv.AppendUint(w.text, n, 10)
	}
	return w
}

// flag writes what is true.
func (w queryWriter) flag(name string, set bool) queryWriter {
	if set {
		w = w.name(name)
		w.text = append(w.text, "true"...)
	}
	return w
}

// Unreserved are the characters that stand for themselves anywhere in a URL, besides
// letters and digits.
const Unreserved = "-_.~"

// AppendEscaped percent-encodes all but letters, digits and what else is safe, alike in
// paths and queries: '@' ends the path and query in a key and must not occur in one.
func AppendEscaped(dst []byte, s, safe string) []byte {
	for _, c := range []byte(s) {
		if 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(safe, c) >= 0 {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return dst
}
