package dialect

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// The names of the fields of a page, in canonical order.
const (
	PageKey        = "pagination.key"
	PageOffset     = "pagination.offset"
	PageLimit      = "pagination.limit"
	PageCountTotal = "pagination.count_total"
	PageReverse    = "pagination.reverse"
)

// Pagination in a row means all fields of a page.
const Pagination = "pagination"

// PageNames are the names of the fields of a page.
var PageNames = [...]string{PageKey, PageOffset, PageLimit, PageCountTotal, PageReverse}

// A Value is one parameter of a query, in canonical form and not escaped.
type Value struct {
	Name, Text string
	field      int // index in the row's fields
}

// Values are the parameters of a query, in canonical order.
type Values []Value

// Get returns the value of a name, "" for none.
func (v Values) Get(name string) string {
	for i := range v {
		if v[i].Name == name {
			return v[i].Text
		}
	}
	return ""
}

// Number returns the number of a name, 0 for none.
func (v Values) Number(name string) (n uint64) {
	n, _ = strconv.ParseUint(v.Get(name), 0, 64)
	return n
}

// With replaces the value of a name that is present. "" removes it.
func (v Values) With(name, text string) Values {
	for i := range v {
		if v[i].Name == name {
			v[i].Text = text
		}
	}
	return slices.DeleteFunc(v, func(one Value) bool { return one.Name == name && text == "" })
}

// Large reports whether a page costs the node as much as the whole set.
func (v Values) Large() bool { return v.Number(PageLimit) > LargePage }

// LargePage is the largest limit of a page that is not Large.
const LargePage = 1000

// Append appends the parameters as a query.
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

// NextKeyPath is the path of the next page key in a node's list. In the documented shape it is within msg.
const NextKeyPath = "pagination.next_key"

// NextKey returns the next page key at a path in a body.
func NextKey(body []byte, path string) (found gjson.Result) {
	if bytes.Contains(body, []byte(`"next_key"`)) {
		found = gjson.GetBytes(body, path)
	}
	if found.Type != gjson.String {
		return gjson.Result{}
	}
	return found
}

// WithoutNextKey returns a body without the text of its next page key, which changes with the block while the page
// stays the same. A page that becomes the last one, or ceases to be it, is another page.
func WithoutNextKey(body []byte) []byte {
	for _, path := range [...]string{"msg." + NextKeyPath, NextKeyPath} {
		if key := NextKey(body, path); key.Index > 0 {
			return slices.Concat(body[:key.Index], body[key.Index+len(key.Raw):])
		}
	}
	return body
}
