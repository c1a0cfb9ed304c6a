package docs

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/chain/documented"
)

// schema describes a schema of the chain's interface. One that has a title becomes
// a component, and is referred to.
func (d *description) schema(s *documented.Schema) *huma.Schema {
	if s.Title == "" {
		return d.inline(s)
	}
	if components := d.Components.Schemas.Map(); components[s.Title] == nil {
		components[s.Title] = d.inline(s)
	}
	return &huma.Schema{Ref: schemaRefs + s.Title}
}

func (d *description) inline(s *documented.Schema) *huma.Schema {
	made := &huma.Schema{Type: string(s.Kind), Description: s.Doc, Pattern: s.Pattern, Format: s.Format, Nullable: s.Nullable}
	for _, value := range s.Values {
		made.Enum = append(made.Enum, value)
	}
	switch s.Kind {
	case documented.ObjectKind:
		made.Properties = map[string]*huma.Schema{}
		for _, m := range s.Members {
			p := d.schema(m.Schema)
			p.Description = m.Doc
			made.Properties[m.Name] = p
			if m.Presence == documented.Required || m.Presence == documented.Mandatory {
				made.Required = append(made.Required, m.Name)
			}
		}
	case documented.ListKind:
		made.Items = d.schema(s.Items)
	}
	return made
}
