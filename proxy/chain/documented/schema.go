// Package documented is the shape in which the documented interface wants the
// answers of the chain's node: schema.go says what a schema is, schemas.go which
// there are, reshape.go edits an answer into its schema, and text.go reads its text.
package documented

import (
	"fmt"
	"strings"
)

// A Schema is the documented shape of a JSON value. Normalizing a value makes it
// that shape: the node leaves out what is zero or empty and sends null for an
// empty list, where the documented interface has every required member.
type Schema struct {
	Title    string // its name in documents; "" for one that has none
	Doc      string // what a value means; "" where the members that have it say so
	Kind     Kind
	Pattern  string   // of a string
	Values   []string // of a string: the only ones; nil for any
	Format   string   // of a string or an integer
	Members  []Field  // of an object
	Items    *Schema  // of a list
	Nullable bool     // null stays null

	zero string  // the JSON of the empty value; "" where there can be none
	open bool    // described, but passed on as the node sent it
	edit reshape // makes a msg of this schema where normalizing is not enough; nil: normalize
}

// Kind is the type of a JSON value, by its name in JSON Schema.
type Kind string

// The kinds.
const (
	StringKind  Kind = "string"
	IntegerKind Kind = "integer"
	BooleanKind Kind = "boolean"
	ObjectKind  Kind = "object"
	ListKind    Kind = "array"
)

// A Field is a member of an object.
type Field struct {
	Name string
	*Schema
	Presence Presence
	Doc      string // what it means
}

// Presence says what the absence of a member means.
type Presence int

// The kinds of presence.
const (
	Required  Presence = iota // put there, with its empty value
	Optional                  // left as the node sent it
	Extra                     // the same, and not looked at either: the node sends it beyond the documented members
	Mandatory                 // the node did not answer what it was asked
)

// normalize edits the value at an index into the schema, and gives the index behind it. What the
// schema does not speak of stays.
func (s *Schema) normalize(e *splicer, at int) (end int, err error) {
	switch c := e.src[at]; {
	case s.open:
		return skip(e.src, at), nil
	case c == 'n' && s.zero != "":
		end = literal(e.src, at)
		e.replace(at, end, s.zero)
		return end, nil
	case s.Kind == ObjectKind && c == '{':
		return s.normalizeMembers(e, at)
	case s.Kind == ListKind && c == '[':
		return s.normalizeItems(e, at)
	case s.Kind == StringKind && c == '"', s.Kind == IntegerKind && (c == '-' || '0' <= c && c <= '9'), s.Kind == BooleanKind && (c == 't' || c == 'f'):
		return skip(e.src, at), nil
	}
	return at, fmt.Errorf("want type %s, have %.40s", s.Kind, e.src[at:skip(e.src, at)])
}

func (s *Schema) normalizeItems(e *splicer, at int) (end int, err error) {
	for at = blanks(e.src, at+1); e.src[at] != ']'; at = next(e.src, at) {
		if at, err = s.Items.normalize(e, at); err != nil {
			return at, err
		}
	}
	return at + 1, nil
}

func (s *Schema) normalizeMembers(e *splicer, at int) (end int, err error) {
	if s == paginationSchema {
		e.page = e.moved(at)
	}
	var seen uint32
	at = blanks(e.src, at+1)
	empty := e.src[at] == '}'
	for ; e.src[at] != '}'; at = next(e.src, at) {
		var name string
		name, at = member(e.src, at)
		if i := s.index(name); i >= 0 && seen&(1<<i) == 0 {
			seen |= 1 << i
			at, err = s.Members[i].normalize(e, at)
		} else {
			at = skip(e.src, at)
		}
		if err != nil {
			return at, err
		}
	}
	missing, err := s.missing(seen, empty)
	if missing != "" {
		e.replace(at, at, missing)
	}
	return at + 1, err
}

// normalize edits the member's value, where there is one.
func (f *Field) normalize(e *splicer, at int) (end int, err error) {
	switch null := e.src[at] == 'n'; {
	case f.Presence == Extra, f.Presence == Optional && null:
		return skip(e.src, at), nil
	case f.Presence == Mandatory && null:
		return at, fmt.Errorf("%s is null", f.Name)
	}
	if end, err = f.Schema.normalize(e, at); err != nil {
		return end, fmt.Errorf("%s: %w", f.Name, err)
	}
	return end, nil
}

// missing renders the required members that are not among those seen.
func (s *Schema) missing(seen uint32, empty bool) (string, error) {
	var b strings.Builder
	for i, m := range s.Members {
		if seen&(1<<i) != 0 || m.Presence == Optional || m.Presence == Extra {
			continue
		}
		if m.Presence == Mandatory {
			return "", fmt.Errorf("%s is missing", m.Name)
		}
		if !empty {
			b.WriteByte(',')
		}
		empty = false
		b.WriteString(`"` + m.Name + `":` + m.zero)
	}
	return b.String(), nil
}

func (s *Schema) index(name string) int {
	for i := range s.Members {
		if s.Members[i].Name == name {
			return i
		}
	}
	return -1
}

// objectOf makes the schema of an object; its empty value has all that is
// required, and there is none if a member is mandatory.
func objectOf(members ...Field) *Schema {
	s := &Schema{Kind: ObjectKind, Members: members}
	if inside, err := s.missing(0, true); err == nil {
		s.zero = "{" + inside + "}"
	}
	return s
}

func listOf(items *Schema) *Schema { return &Schema{Kind: ListKind, zero: "[]", Items: items} }

// listOrNull is a list for which the node's null is passed on.
func listOrNull(items *Schema) *Schema {
	return &Schema{Kind: ListKind, zero: "null", Items: items, Nullable: true}
}

// named gives a schema its title.
func (s *Schema) named(title, doc string) *Schema {
	s.Title, s.Doc = title, doc
	return s
}

// editedBy says that a msg needs more than normalizing to have the schema.
func (s *Schema) editedBy(edit reshape) *Schema {
	s.edit = edit
	return s
}

// asSent says that values are passed on as the node sent them.
func (s *Schema) asSent() *Schema {
	s.open = true
	return s
}
