package docs

import (
	"cmp"
	_ "embed" // examples
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
)

// addCosmos adds an operation for each row of a Cosmos SDK chain. Bodies are the node's own.
func (d *description) addCosmos() {
	must(json.Unmarshal(sdkText, &d.sdk))
	messages := d.addMessages()
	schemas := d.Components.Schemas.Map()
	schemas["Answer"] = &huma.Schema{Type: huma.TypeObject, Description: "The response of the node, byte for byte."}
	schemas["Refusal"] = &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "message", "details"},
		Properties: map[string]*huma.Schema{
			"code":    {Type: huma.TypeInteger, Format: "int32", Description: "The gRPC code."},
			"message": {Type: huma.TypeString, Description: "The error message. If the node refused the request, it is the node's text."},
			"details": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeObject}, Description: "Usually empty."},
		},
	}
	d.addRefusals()
	for _, row := range d.o.Cosmos {
		parts := module.FindStringSubmatch(row.Pattern)
		if parts == nil || row.Name == dialect.Other { // a row without a path, and the row for all other paths
			continue
		}
		d.examples[row.Name] = d.sdk.exampleOf(row)
		answer := d.answer()
		if name := messages[row.Method]; name != "" {
			answer.Content[respond.JSON].Schema.Ref = schemaRefs + name
		}
		d.addRow(row, strings.ReplaceAll(parts[1], "/", "."), cmp.Or(parts[2], row.Name), d.parts.Classes[row.Class], answer)
	}
}

// module matches a path by its module, with the version, and the rest. Without a version, the module is the first segment.
var module = regexp.MustCompile(`^/([a-z_/]+/v[0-9][a-z0-9]*|[^/]+)(?:/(.+))?$`)

// sdkExamples has the values for the examples of a Cosmos SDK chain. The accounts exist on the simulated chain.
type sdkExamples struct {
	Pool   json.RawMessage              // a response to the path of examplePath
	Values map[string]string            // parameters by name; query parameters are used only if the row requires them
	Rows   map[string]map[string]string // parameters of single rows, which take precedence
}

//go:embed sdk.json
var sdkText []byte

// exampleOf returns the example of a row.
func (e *sdkExamples) exampleOf(row dialect.Row) example {
	own, query := e.Rows[row.Name], url.Values{}
	path := variable.ReplaceAllStringFunc(row.Pattern, func(text string) string {
		name := variable.FindStringSubmatch(text)[1]
		return cmp.Or(own[name], e.Values[name])
	})
	for _, word := range strings.Fields(row.Query) {
		name, _, _ := strings.Cut(word, ":")
		if value, ok := own[name]; ok {
			query.Set(name, value)
		}
	}
	target := url.URL{Path: path, RawQuery: query.Encode()}
	request, _ := json.Marshal(target.String()) // strings always encode
	return example{Request: request}
}
