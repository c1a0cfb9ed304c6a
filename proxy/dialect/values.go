package dialect

import (
	"slices"
	"strconv"
	"strings"
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

// Large reports whether a page costs the node as much as the whole set. A gateway reads name[value]= as name=value.
func (v Values) Large() bool {
	for i := range v {
		rest, isLimit := strings.CutPrefix(v[i].Name, PageLimit)
		if !isLimit {
			continue
		}
		text := v[i].Text
		if rest != "" {
			text = strings.Trim(rest, "[]")
		}
		if n, _ := strconv.ParseUint(text, 0, 64); n > LargePage {
			return true
		}
	}
	return false
}

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
