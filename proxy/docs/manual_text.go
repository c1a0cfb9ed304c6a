package docs

import (
	"bytes"
	"encoding/json"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/story/documented"
)

// A manualMember is a member of an object at any depth, named by the path to it.
type manualMember struct {
	Name, Type, Text string
	Schema           string // name of the schema to link to
	List, Nullable   bool   // whether Schema is that of the items, or may be null
	Optional         bool
}

// memberOf describes a member with a schema.
func memberOf(name string, s *huma.Schema, optional bool) manualMember {
	if s.AnyOf != nil { // a reference, or null
		s = &huma.Schema{Ref: s.AnyOf[0].Ref, Nullable: true}
	}
	return manualMember{name, typeName(s), s.Description, schemaName(s), s.Items != nil, s.Nullable, optional}
}

// members lists the members of a schema and of the objects in it. Named schemas are linked, not listed.
func members(at string, s *huma.Schema) []manualMember {
	if s.Items != nil && s.Items.Properties != nil {
		return members(at+"[]", s.Items)
	}
	var all []manualMember
	for _, name := range memberNames(s) {
		m, below := s.Properties[name], strings.TrimPrefix(at+"."+name, ".")
		all = append(all, memberOf(below, m, !slices.Contains(s.Required, name)))
		all = append(all, members(below, m)...)
	}
	return all
}

// memberNames returns the required members first, in the order of responses.
func memberNames(s *huma.Schema) []string {
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// schemaName returns the name of the schema that a schema, or its items, refers to.
func schemaName(s *huma.Schema) string {
	if s.Items != nil {
		s = s.Items
	}
	return strings.TrimPrefix(s.Ref, schemaRefs)
}

// typeName says what a value looks like.
func typeName(s *huma.Schema) string {
	name := s.Type
	switch {
	case s.Ref != "":
		name = "object"
	case s.Type == huma.TypeArray && s.Items.Ref == "":
		name = "list of " + typeName(s.Items) + "s"
	case s.Type == huma.TypeArray:
		name = "list"
	case s.ContentEncoding != "":
		name = s.ContentEncoding
	case s.Format == "date-time":
		name = "timestamp"
	case s.Pattern == documented.AmountPattern:
		name = "string, an integer"
	case s.Pattern == documented.DecimalPattern, s.Pattern == documented.FractionPattern:
		name = "string, a decimal"
	}
	if s.Nullable {
		name += " or null"
	}
	return name
}

var code = regexp.MustCompile("`([^`]*)`")

// prose renders the little of Markdown that descriptions use.
func prose(text string) template.HTML {
	text = code.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>")
	return template.HTML("<p>" + strings.ReplaceAll(text, "\n\n", "</p><p>") + "</p>")
}

// breakable allows a line break after each slash of a path.
func breakable(path string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(path), "/", "/<wbr>"))
}

// indented formats a JSON text.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}
