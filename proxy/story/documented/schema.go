// Package documented converts answers of Story nodes into the documented shape. schema.go defines schemas, and schemas.go has
// the schemas of the paths. shape.go edits an answer into its schema, reading JSON with text.go. reshape.go has further edits
// for two paths.
package documented

// A Schema is the documented shape of a JSON value. Normalizing a value adds required members, because nodes omit members that
// are zero or empty, and send null for an empty list.
type Schema struct {
	Title    string // its name in documents; "" means none
	Doc      string // what a value means; "" where the members that have it say so
	Kind     Kind
	Pattern  string  // of a string
	Format   string  // of a string or an integer
	Members  []Field // of an object
	Items    *Schema // of a list
	Nullable bool    // null stays null

	zero string  // the JSON of the empty value; "" where there can be none
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

// Presence is the treatment of an absent member.
type Presence int

// The kinds of presence. The empty value of Required replaces null, too.
const (
	Required  Presence = iota // added with its empty value
	Optional                  // may be absent or null; any other value is checked
	Extra                     // may be absent, and stays as the node sent it, in addition to the documented members
	Mandatory                 // its absence is an error
)

// objectOf returns the schema of an object. Its empty value has all required members. If a member is mandatory, it has no empty
// value.
func objectOf(members ...Field) *Schema {
	s := &Schema{Kind: ObjectKind, Members: members}
	if inside, err := s.missing(0, true); err == nil {
		s.zero = "{" + inside + "}"
	}
	return s
}

func listOf(items *Schema) *Schema { return &Schema{Kind: ListKind, zero: "[]", Items: items} }

// listOrNull returns the schema of a list that may be null.
func listOrNull(items *Schema) *Schema {
	return &Schema{Kind: ListKind, zero: "null", Items: items, Nullable: true}
}

// named sets the title and description of a schema.
func (s *Schema) named(title, doc string) *Schema {
	s.Title, s.Doc = title, doc
	return s
}

// editedBy sets the edit that replaces normalizing.
func (s *Schema) editedBy(edit reshape) *Schema {
	s.edit = edit
	return s
}
