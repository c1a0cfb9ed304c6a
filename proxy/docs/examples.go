package docs

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/tipcache/tipcache/proxy/chain"
)

// exampleFiles has a real request for each operation, and the answer that a
// real node's recorded one becomes, under the operation's id. Those of /dkg are a simulated node's.
//
//go:embed examples/*.json
var exampleFiles embed.FS

// An example is a request and its answer.
type example struct {
	Request json.RawMessage // the target of a GET as a text; the body of a POST
	Answer  json.RawMessage // nil where none was recorded
}

func loadExamples() (map[string]example, error) {
	all := map[string]example{}
	files, err := fs.Glob(exampleFiles, "examples/*.json")
	for _, file := range files {
		var e example
		text, unread := exampleFiles.ReadFile(file)
		err = errors.Join(err, unread, json.Unmarshal(text, &e))
		all[strings.TrimSuffix(path.Base(file), ".json")] = e
	}
	return all, err
}

// target is what a GET asks for.
func (e example) target() (*url.URL, error) {
	var text string
	if err := json.Unmarshal(e.Request, &text); err != nil {
		return nil, fmt.Errorf("the example's request: %w", err)
	}
	return url.Parse(text)
}

// values are the parameters of an example of the route, by name.
func (e example) values(rt chain.Route) (map[string]string, error) {
	if e.Request == nil {
		return nil, nil
	}
	u, err := e.target()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	segments := strings.Split(u.Path, "/")
	for i, part := range strings.Split(rt.Pattern, "/") {
		if m := variable.FindStringSubmatch(part); m != nil && i < len(segments) {
			found[m[1]] = segments[i]
		}
	}
	for name, values := range u.Query() {
		found[name] = values[0]
	}
	return found, nil
}
