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

// PageNames are all of them.
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

// parsePage reads the page parameters, empty ones like absent ones.
func parsePage(format pageKeyFormat, values [len(PageNames)]string, maxLimit uint64) (p page, err error) {
	if values[0] != "" {
		var ok bool
		if p.key, ok = format.decode(values[0]); !ok {
			return p, malformed(PageKey, values[0], "the next_key of the page before")
		}
	}
	if p.offset, err = parseUint(PageOffset, values[1]); err != nil {
		return p, err
	}
	if p.limit, err = parseUint(PageLimit, values[2]); err != nil {
		return p, err
	}
	if p.count, err = parseBool(PageCountTotal, values[3]); err != nil {
		return p, err
	}
	if p.reverse, err = parseBool(PageReverse, values[4]); err != nil {
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
// the node does anyway.
func (p page) appendQuery(q queryWriter) queryWriter {
	if p.key != "" {
		q = q.name(PageKey)
		q.text = appendEscaped(q.text, p.key)
	}
	if p.offset > 0 {
		q = q.name(PageOffset)
		q.text = strconv.AppendUint(q.text, p.offset, 10)
	}
	if p.limit > 0 {
		q = q.name(PageLimit)
		q.text = strconv.AppendUint(q.text, p.limit, 10)
	}
	// With a key nothing is counted; without a limit everything is.
	if p.count && p.key == "" && p.limit > 0 {
		q = q.name(PageCountTotal)
		q.text = append(q.text, "true"...)
	}
	if p.reverse {
		q = q.name(PageReverse)
		q.text = append(q.text, "true"...)
	}
	return q
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
