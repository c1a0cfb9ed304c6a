package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
)

// A Manner is how the nodes of a dialect read a query.
type Manner int

// The manners.
const (
	Strict  Manner = iota // malformed values are refused; an empty value means none
	Lenient               // values that cannot be decoded are ignored; names match in any letter case and with a trailing []; an exact name is preferred
	Gateway               // grpc-gateway; a query that it refuses, or reads in an undefined order, is ambiguous
)

// A Parser reads the requests of one row of a table.
type Parser struct {
	Row     Row
	Fields  []Field // fields of the query, in canonical order
	manner  Manner
	pattern pattern
	path    []Field // fields of the path's segments; zero for literals
}

// NewParser compiles a row.
func NewParser(row Row, manner Manner, lookup Lookup) (p *Parser, err error) {
	p = &Parser{Row: row, manner: manner}
	if p.pattern, err = parsePattern(row.Pattern); err != nil {
		return nil, err
	}
	if p.path, p.Fields, err = fieldsOf(row, p.pattern, lookup); err != nil {
		return nil, fmt.Errorf("%s: %w", row.Pattern, err)
	}
	return p, nil
}

// A Lookup returns the field that a word in a row stands for: name or name:kind.
type Lookup func(word string, inPath bool) (Field, error)

// fieldsOf returns the fields of a row: one for each segment of its path, and those of its query, with those of a page
// last.
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

// A Field is a name in a path or a query, and how its values are read.
type Field struct {
	Name  string
	Alias string // another name that nodes accept; "" for none
	Kind
}

// A Kind reads the values of one type of field.
type Kind struct {
	Expects string // completes "expected ..."
	Zero    string // form in a path of the value that means the same as none
	List    bool   // all values in a query count, not only the first
	Keep    bool   // an empty value in a query differs from none

	// Read returns the canonical form of a value, not escaped. It returns false for a value that the node would
	// refuse. An empty form means the same as no value.
	Read func(value string) (canonical string, ok bool)
}

// Malformed returns an error that names the field, shows the beginning of its value and says what is expected.
func (f *Field) Malformed(value string) error {
	return failure.BadInput("%s is %q; expected %s", f.Name, web.Short(value), f.Expects)
}

// A pattern is the path of a row, compiled.
type pattern []segment

// A segment is the part of a path between two slashes.
type segment struct {
	Literal string // "" for a variable
	Word    string // of the variable: name, or name:kind
	Rest    bool   // takes all that follows
}

func parsePattern(text string) (p pattern, err error) {
	for part := range strings.SplitSeq(text[1:], "/") {
		if len(p) > 0 && p[len(p)-1].Rest {
			return nil, fmt.Errorf("%s: nothing can follow {...=**}", text)
		}
		s, ok := parseSegment(part)
		if !ok {
			return nil, fmt.Errorf("%s: %q is neither a word nor a variable", text, part)
		}
		p = append(p, s)
	}
	return p, nil
}

// Patterns are patterns of paths, as [Row] has them.
type Patterns []pattern

// ParsePatterns returns an error for a pattern that is malformed.
func ParsePatterns(texts []string) (all Patterns, err error) {
	for _, text := range texts {
		if !strings.HasPrefix(text, "/") {
			return nil, fmt.Errorf("%q does not begin with /", text)
		}
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Match reports whether a decoded path matches one of the patterns.
func (all Patterns) Match(path string) bool {
	var buf [maxParts]string
	parts := split(buf[:0], path)
	return slices.ContainsFunc(all, func(p pattern) bool { return p.matches(parts) })
}

// parseSegment reads a literal, or {name}, {name:kind}, {name=**} or {name=**:kind}.
func parseSegment(part string) (s segment, ok bool) {
	word, isVar := strings.CutPrefix(part, "{")
	if !isVar {
		return segment{Literal: part}, part != ""
	}
	word, closed := strings.CutSuffix(word, "}")
	before, kind, _ := strings.Cut(word, ":")
	name, rest := strings.CutSuffix(before, "=**")
	return segment{Word: name + ":" + kind, Rest: rest}, closed && name != "" && !strings.ContainsAny(name, "{}=*")
}
