package cosmos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/chain"
)

// A segment is one piece of a pattern.
type segment struct {
	literal string // "" for a variable
	field
	rest bool // takes all that follows
}

// A field is a name in a path or a query, and how its values are read.
type field struct {
	name  string
	camel string // its JSON name
	typ   string
	kind  kind // nil for a list
}

// A matcher is a compiled row.
type matcher struct {
	chain.Row
	path   []segment
	fields []field // of the query, those of a page last
	open   bool    // takes whatever comes
	place  int     // among the rows
}

// pageFields are the fields of pagination, in canonical order.
var pageFields = []string{"pagination.key:bytes", "pagination.offset:uint64", "pagination.limit:uint64", "pagination.count_total:bool", "pagination.reverse:bool"}

// newField reads name or name:kind. Without a kind it is the one that the name has everywhere.
func newField(word string) (field, error) {
	name, written, _ := strings.Cut(word, ":")
	typ := cmp.Or(written, fieldKinds[name], "text")
	k, known := kinds[typ]
	if !known {
		return field{}, fmt.Errorf("the kind %q of %s is unknown", typ, name)
	}
	return field{name: name, camel: camel(name), typ: typ, kind: k}, nil
}

// camel is the JSON name of a proto name.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts[1:] {
		if part != "" {
			parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}

func compile(r chain.Row) (*matcher, error) {
	m := &matcher{Row: r, open: r.Query == anything}
	for part := range strings.SplitSeq(r.Pattern[1:], "/") {
		s, err := newSegment(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Pattern, err)
		}
		if len(m.path) > 0 && m.path[len(m.path)-1].rest {
			return nil, fmt.Errorf("%s: nothing can follow {...=**}", r.Pattern)
		}
		m.path = append(m.path, s)
	}
	if m.open {
		return m, nil
	}
	words, page := strings.Fields(r.Query), []string(nil)
	if i := slices.Index(words, chain.Pagination); i >= 0 {
		words, page = slices.Delete(words, i, i+1), pageFields
	}
	if most := maxFields - len(pageFields); len(words) > most {
		return nil, fmt.Errorf("%s: more than %d parameters", r.Pattern, most)
	}
	for _, word := range slices.Concat(words, page) {
		f, err := newField(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Pattern, err)
		}
		m.fields = append(m.fields, f)
	}
	return m, nil
}

// newSegment reads a literal, or {name}, {name:kind}, {name=**} or {name=**:kind}.
func newSegment(part string) (segment, error) {
	word, isVar := strings.CutPrefix(part, "{")
	if !isVar {
		return segment{literal: part}, nil
	}
	word, closed := strings.CutSuffix(word, "}")
	before, written, _ := strings.Cut(word, ":")
	name, rest := strings.CutSuffix(before, "=**")
	if !closed || name == "" || strings.ContainsAny(name, "{}=*") {
		return segment{}, fmt.Errorf("%q is no variable", part)
	}
	f, err := newField(name + ":" + written)
	if err == nil && f.kind == nil {
		err = fmt.Errorf("%s is a list, which a path cannot hold", name)
	}
	return segment{field: f, rest: rest}, err
}

// matches compares the segments of a decoded path. As on the node a variable may be empty.
func (m *matcher) matches(parts []string) bool {
	for i, s := range m.path {
		switch {
		case i >= len(parts):
			return false
		case s.rest:
			return true
		case s.literal != "" && s.literal != parts[i]:
			return false
		}
	}
	return len(m.path) == len(parts)
}
