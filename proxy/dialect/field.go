package dialect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// A Field is a name in a path or a query, and how its values are read.
type Field struct {
	Name  string
	Alias string // the other name that nodes know it by; "" for none
	Kind
}

// A Kind reads the values of one type of field.
type Kind struct {
	Expects string // completes "expected ..."
	Zero    string // in a path, the spelling of what says as much as no value
	List    bool   // all values of a query count, and not the first one alone
	Keep    bool   // an empty value in a query says something

	// Read gives a value its one spelling, not escaped. It is not ok for what the node would
	// refuse. An empty spelling says as much as no value.
	Read func(value string) (spelling string, ok bool)
}

// inPath is the spelling of a variable. That of what says as much as no value is written out,
// since an empty segment is another thing.
func (f *Field) inPath(value string) (spelling string, err error) {
	spelling, ok := f.Read(value)
	if spelling == "" {
		spelling = cmp.Or(f.Zero, value)
		ok = ok && (f.Zero != "" || value == "")
	}
	if !ok {
		return "", f.Malformed(value)
	}
	return spelling, nil
}

// Malformed names the field, shows the beginning of its value and says what is expected.
func (f *Field) Malformed(value string) error {
	return web.BadInput("%s is %q; expected %s", f.Name, web.Short(value), f.Expects)
}

// The names of the fields of a page, in canonical order.
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

// A Value is one parameter of a query, in its one spelling, and not escaped.
type Value struct {
	Name, Text string
	field      int // its place in the row
}

// Values are the parameters of a query, in canonical order.
type Values []Value

// Get is the value of a name, "" if there is none.
func (v Values) Get(name string) string {
	for i := range v {
		if v[i].Name == name {
			return v[i].Text
		}
	}
	return ""
}

// Number is the number of a name, 0 if there is none.
func (v Values) Number(name string) (n uint64) {
	if text := v.Get(name); text != "" {
		n, _ = strconv.ParseUint(text, 0, 64)
	}
	return n
}

// With is the same but for the value of a name that is there; an empty one goes.
func (v Values) With(name, text string) Values {
	for i := range v {
		if v[i].Name == name {
			v[i].Text = text
		}
	}
	return slices.DeleteFunc(v, func(one Value) bool { return one.Name == name && text == "" })
}

// Large says whether a page is asked for that weighs on the node as much as the whole set.
func (v Values) Large() bool { return v.Number(PageLimit) > largePage }

const largePage = 1000

// Append writes them as a query.
func (v Values) Append(dst []byte) []byte {
	for i := range v {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(appendEscaped(dst, v[i].Name, unreserved), '=')
		dst = appendEscaped(dst, v[i].Text, unreserved)
	}
	return dst
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
