package docs

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/chain/documented"
)

// schema describes a schema of the chain's interface, which stands at a place in
// the document: the title of a component or the name of a route, then the names
// of the members down to it. A schema that has a title becomes a component, and
// is referred to.
func (d *description) schema(s *documented.Schema, at string) *huma.Schema {
	if s.Title == "" {
		return d.inline(s, at)
	}
	if components := d.Components.Schemas.Map(); components[s.Title] == nil {
		components[s.Title] = d.inline(s, s.Title)
		components[s.Title].Description = schemaTexts[s.Title]
	}
	return &huma.Schema{Ref: schemaRefs + s.Title}
}

func (d *description) inline(s *documented.Schema, at string) *huma.Schema {
	switch s.Kind {
	case documented.ObjectKind:
		return d.object(s, at)
	case documented.ListKind:
		return &huma.Schema{Type: huma.TypeArray, Items: d.schema(s.Items, at), Nullable: s.Nullable}
	default:
		return &huma.Schema{Type: scalarTypes[s.Kind], Pattern: s.Pattern, Format: s.Format}
	}
}

var scalarTypes = map[documented.Kind]string{
	documented.StringKind:  huma.TypeString,
	documented.IntegerKind: huma.TypeInteger,
	documented.BooleanKind: huma.TypeBoolean,
}

func (d *description) object(s *documented.Schema, at string) *huma.Schema {
	o := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
	for _, m := range slices.Concat(s.Members, s.Extra) {
		p := d.schema(m.Schema, at+"."+m.Name)
		p.Description = memberText(at, m.Name)
		o.Properties[m.Name] = p
		if m.Presence != documented.Optional {
			o.Required = append(o.Required, m.Name)
		}
	}
	return o
}

// memberText says what a member means: at its place, or wherever it stands.
func memberText(at, name string) string {
	if text, ok := memberTexts[at+"."+name]; ok {
		return text
	}
	return memberTexts[name]
}
