package dialect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// A Field is a name in a path or a query, and how its values are read.
type Field struct {
	Name  string
	Alias string // the other name that nodes know it by; "" for none other
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

// A Lookup is the field that a word in a row stands for: name or name:kind.
type Lookup func(word string, inPath bool) (Field, error)

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

// fieldsOf are the fields of a row: those of its path, one for each segment, and those of its
// query, with those of a page last.
func fieldsOf(row Row, p pattern, lookup Lookup) (path, query []Field, err error) {
	path = make([]Field, len(p))
	for i, s := range p {
		if s.Literal != "" {
			continue
		}
		if path[i], err = lookup(s.Word, true); err != nil {
			return nil, nil, err
		}
		if path[i].List {
			return nil, nil, fmt.Errorf("%s is a list, which a path cannot hold", path[i].Name)
		}
	}
	if row.Query == Anything {
		return path, nil, nil
	}
	var words, page []string
	for _, word := range strings.Fields(row.Query) {
		if word == Pagination {
			page = PageNames[:]
		} else {
			words = append(words, word)
		}
	}
	for _, word := range append(words, page...) {
		f, err := lookup(word, false)
		if err != nil {
			return nil, nil, err
		}
		query = append(query, f)
	}
	return path, query, nil
}
