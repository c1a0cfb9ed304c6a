package docs

import (
	"embed"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
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
