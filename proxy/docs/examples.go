package docs

import (
	"embed"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// exampleFiles has for each operation, by its id, a request and the response made from a recorded answer of a node. Those
// of /dkg are from the simulated chain.
//
//go:embed examples/*.json
var exampleFiles embed.FS

// An example is a request and its answer.
type example struct {
	Request json.RawMessage // target of a GET as a string, or body of a POST
	Answer  json.RawMessage // nil if none was recorded
}

func loadExamples() map[string]example {
	all := map[string]example{}
	files, err := exampleFiles.ReadDir("examples")
	must(err)
	for _, file := range files {
		text, err := exampleFiles.ReadFile("examples/" + file.Name())
		must(err)
		var e example
		must(json.Unmarshal(text, &e))
		all[strings.TrimSuffix(file.Name(), ".json")] = e
	}
	return all
}

// target returns the URL of a GET, nil if there is none.
func (e example) target() *url.URL {
	var text string
	if json.Unmarshal(e.Request, &text) != nil {
		return nil
	}
	u, err := url.Parse(text)
	must(err)
	return u
}

// parametersOf returns the parameters of a target whose path matches a pattern, and their names: those of the path,
// then those of the query, sorted.
func parametersOf(pattern string, target *url.URL) (names []string, values map[string]string) {
	values = map[string]string{}
	segments, last := strings.Split(target.Path, "/"), strings.Count(pattern, "/")
	for i, part := range strings.Split(pattern, "/") {
		match := variable.FindStringSubmatch(part)
		if match == nil || i >= len(segments) {
			continue
		}
		names = append(names, match[1])
		if values[match[1]] = segments[i]; i == last { // the last one may have slashes
			values[match[1]] = strings.Join(segments[i:], "/")
		}
	}
	query := target.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) { // sorted, so that replicas have the same ETag
		names, values[name] = append(names, name), query.Get(name)
	}
	return names, values
}

// msgSchema returns the schema of the example's msg in the node's own shape, or nil if the example has none or an empty
// one. No member is required, because a node omits zero values, and every list may be null.
func (e example) msgSchema() *huma.Schema {
	var answer struct{ Msg map[string]any }
	if json.Unmarshal(e.Answer, &answer) != nil || len(answer.Msg) == 0 {
		return nil
	}
	return schemaOf(answer.Msg)
}

func schemaOf(value any) *huma.Schema {
	switch v := value.(type) {
	case string:
		return &huma.Schema{Type: huma.TypeString}
	case float64: // larger integers are strings
		return &huma.Schema{Type: huma.TypeInteger}
	case bool:
		return &huma.Schema{Type: huma.TypeBoolean}
	case []any:
		s := &huma.Schema{Type: huma.TypeArray, Nullable: true, Items: &huma.Schema{}}
		for _, item := range v {
			merge(s.Items, schemaOf(item))
		}
		return s
	case map[string]any:
		s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
		for name, member := range v {
			s.Properties[name] = schemaOf(member)
		}
		return s
	default:
		return &huma.Schema{}
	}
}

// merge adds the members of another item of a list.
func merge(into, other *huma.Schema) {
	if into.Type == "" {
		*into = *other
	}
	for name, member := range other.Properties {
		if into.Properties[name] == nil {
			into.Properties[name] = member
		} else {
			merge(into.Properties[name], member)
		}
	}
}
