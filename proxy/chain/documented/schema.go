// Package documented is the shape in which the documented interface wants the
// answers of the chain's node: schema.go says what a schema is and schemas.go which
// there are. shape.go edits an answer into its schema, whose text text.go reads; reshape.go does more to two of
// them.
package documented

// A Schema is the documented shape of a JSON value. Normalizing a value makes it
// that shape: the node leaves out what is zero or empty and sends null for an
// empty list, where the documented interface has every required member.
type Schema struct {
	Title    string // its name in documents; "" means none
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
	edit reshape // makes a msg of this schema; nil normalizes only
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
