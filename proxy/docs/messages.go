package docs

import (
	_ "embed" // the messages
	"encoding/json"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/story/documented"
)

// messagesText is the output of cmd/schemas, whose doc comments describe it.
//
//go:embed sdk_messages.json
var messagesText []byte

// messages are the responses of the SDK's modules.
type messages struct {
	Methods  map[string]string            // response messages by method
	Messages map[string]map[string]string // types by field
	Enums    map[string][]string
}

// addMessages adds a component for each message and enum, and returns the components by method.
func (d *description) addMessages() (byMethod map[string]string) {
	var all messages
	must(json.Unmarshal(messagesText, &all))
	schemas := d.Components.Schemas.Map()
	for name, values := range all.Enums {
		schemas[name] = &huma.Schema{Type: huma.TypeString, Description: "`" + strings.Join(values, "`, `") + "`, or a value of a newer release."}
	}
	for name, fields := range all.Messages {
		s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
		for field, typ := range fields {
			if typ, absent := strings.CutSuffix(typ, "|absent"); absent {
				s.Properties[field] = fieldSchema(typ)
			} else {
				s.Properties[field], s.Required = fieldSchema(typ), append(s.Required, field)
			}
		}
		slices.Sort(s.Required)
		schemas[name] = s
	}
	return all.Methods
}

// fieldSchema returns the schema of a field's type, in the notation of cmd/schemas.
func fieldSchema(typ string) *huma.Schema {
	if items, ok := strings.CutPrefix(typ, "[]"); ok {
		return &huma.Schema{Type: huma.TypeArray, Items: fieldSchema(items)}
	}
	typ, null := strings.CutSuffix(typ, "|null")
	s := scalarSchema(typ)
	if s.Ref != "" && null {
		return &huma.Schema{AnyOf: []*huma.Schema{s, {Type: "null"}}}
	}
	s.Nullable = s.Nullable || null
	return s
}

func scalarSchema(typ string) *huma.Schema {
	switch typ {
	case huma.TypeString, huma.TypeInteger, huma.TypeNumber, huma.TypeBoolean:
		return &huma.Schema{Type: typ}
	case "bytes":
		return &huma.Schema{Type: huma.TypeString, ContentEncoding: "base64", Nullable: true} // null means absent
	case "amount":
		return &huma.Schema{Type: huma.TypeString, Pattern: documented.AmountPattern}
	case "decimal":
		return &huma.Schema{Type: huma.TypeString, Pattern: documented.DecimalPattern}
	case "time":
		return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	case "duration":
		return &huma.Schema{Type: huma.TypeString, Description: "A number of seconds with the suffix `s`."}
	case "any":
		return &huma.Schema{
			Type: huma.TypeObject, Required: []string{"@type"}, AdditionalProperties: true, Description: "A message of the type that `@type` names.",
			Properties: map[string]*huma.Schema{"@type": {Type: huma.TypeString}},
		}
	case "json":
		return &huma.Schema{Description: "Any JSON."}
	default:
		return &huma.Schema{Ref: schemaRefs + typ}
	}
}
