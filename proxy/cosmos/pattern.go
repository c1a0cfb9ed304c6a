package cosmos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
)

// A segment is one piece of a pattern, with the field that its variable is.
type segment struct {
	chain.Segment
	field
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
	pattern chain.Pattern
	path    []segment
	fields  []field // of the query, those of a page last
	open    bool    // takes whatever comes
	route   web.Route
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

// A rowTable finds the row of a path.
type rowTable struct {
	rows  []*matcher // all of them, in order
	index *chain.Index
}

// moduleDepth is how many segments name a module: cosmos, bank, v1beta1.
const moduleDepth = 3

// newTable compiles rows. The last one fits whatever comes.
func newTable(rows []chain.Row) (*rowTable, error) {
	t := &rowTable{}
	var patterns []chain.Pattern
	for _, r := range rows {
		m, err := compile(r)
		if err != nil {
			return nil, err
		}
		t.rows, patterns = append(t.rows, m), append(patterns, m.pattern)
	}
	t.index = chain.NewIndex(moduleDepth, patterns)
	return t, nil
}

// find is the row of a decoded path, which it cuts into its segments, without the colon of
// an empty verb.
func (t *rowTable) find(room []string, decoded string) (m *matcher, path string, parts []string) {
	path = dropColon(decoded)
	parts = chain.Split(room, path)
	place, ok := t.index.Find(path, parts)
	if !ok {
		place = len(t.rows) - 1
	}
	return t.rows[place], path, parts
}

func compile(r chain.Row) (*matcher, error) {
	p, err := chain.ParsePattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	m := &matcher{Row: r, pattern: p, open: r.Query == anything}
	for _, s := range p {
		f, err := fieldOf(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Pattern, err)
		}
		m.path = append(m.path, segment{s, f})
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

// fieldOf is the field that a variable is; none for a literal.
func fieldOf(s chain.Segment) (f field, err error) {
	if s.Literal != "" {
		return f, nil
	}
	f, err = newField(s.Name + ":" + s.Kind)
	if err == nil && f.kind == nil {
		err = fmt.Errorf("%s is a list, which a path cannot hold", s.Name)
	}
	return f, err
}
