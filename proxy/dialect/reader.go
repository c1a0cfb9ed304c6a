package dialect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// A Manner is how the nodes of a dialect read a query.
type Manner int

// The manners.
const (
	Strict  Manner = iota // what is malformed is refused; an empty value is none
	Lenient               // what cannot be decoded is passed over; names match in any case and with [] behind them
	Gateway               // of grpc-gateway: what it refuses, or reads in no certain order, is ambiguous
)

// A Reader reads the requests of one row of a table.
type Reader struct {
	Row
	Fields  []Field // of the query, in canonical order
	manner  Manner
	pattern pattern
	path    []Field // of its segments; none of a literal
}

// NewReader compiles a row.
func NewReader(row Row, manner Manner, lookup Lookup) (rd *Reader, err error) {
	rd = &Reader{Row: row, manner: manner}
	if rd.pattern, err = parsePattern(row.Pattern); err != nil {
		return nil, err
	}
	if rd.path, rd.Fields, err = fieldsOf(row, rd.pattern, lookup); err != nil {
		return nil, fmt.Errorf("%s: %w", row.Pattern, err)
	}
	return rd, nil
}

// ReadPath gives a decoded path, which the pattern fits, its one spelling.
func (rd *Reader) ReadPath(path string) (spelling string, err error) {
	var room [maxParts]string
	parts := split(room[:0], path)
	changed := false
	for i, s := range rd.pattern {
		if s.Literal != "" {
			continue
		}
		if s.Rest {
			parts = append(parts[:i], strings.Join(parts[i:], "/"))
		}
		given := parts[i]
		if given == "." || given == ".." { // segments that stand for another path
			return "", &web.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(string(AppendPath(nil, "/"+strings.Join(parts[:i+1], "/"))))}
		}
		if parts[i], err = rd.path[i].inPath(given); err != nil {
			return "", err
		}
		changed = changed || parts[i] != given
	}
	if !changed {
		return path, nil
	}
	return "/" + strings.Join(parts, "/"), nil
}

// Spell puts what a request asks into the question: path and parameters in the spelling that
// the Reader gave them, and the key.
func (q *Question) Spell(prefix, path string, v Values) {
	var room [256]byte
	text := AppendPath(append(room[:0], prefix...), path)
	end := len(text)
	if len(v) > 0 {
		text = v.Append(append(text, '?'))
	}
	q.Key, q.Path = string(text), path
	q.RawQuery = strings.TrimPrefix(q.Key[end:], "?")
}

// unreserved are the characters that stand for themselves anywhere in a URL, besides
// letters and digits.
const unreserved = "-_.~"

// AppendPath escapes a path. Of what means something in a key, '?', '@' and '*', nothing is left.
func AppendPath(dst []byte, path string) []byte { return appendEscaped(dst, path, unreserved+"/:=,") }

// appendEscaped percent-encodes all but letters, digits and what else is safe.
func appendEscaped(dst []byte, s, safe string) []byte {
	for _, c := range []byte(s) {
		if 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(safe, c) >= 0 {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return dst
}
