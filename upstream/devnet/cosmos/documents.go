package cosmos

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

//go:embed documents.jsonl
var documentLines []byte

//go:embed routes.jsonl
var routeLines []byte

// documents are the answers of what stands still, by path.
var documents = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, pair := range state.Lines[[2]string](documentLines) {
		all[pair[0]] = pair[1]
	}
	return all
})

// A documentRoute is a route whose answers are documents.
type documentRoute struct {
	Pattern, Params string   // as in a route
	Key             []string // the parameters in the path of the document
	List            string   // the name of the list that is empty where there is no document
	Answer          string   // or else the answer there
	Code            int      // or else how the module fails
	Text            string   // with {name} for arguments, as in an answer
}

// documented are the routes of routes.jsonl.
func documented() (all []route) {
	for _, d := range state.Lines[documentRoute](routeLines) {
		all = append(all, route{pattern: d.Pattern, params: d.Params, serve: d.serve})
	}
	return all
}

func (d documentRoute) serve(q *query) (string, error) {
	sep := "?"
	for _, name := range d.Key {
		if value, given := q.args[name]; given {
			q.path, sep = q.path+sep+name+"="+value, "&"
		}
	}
	switch _, known := documents()[q.path]; {
	case known:
		return document(q)
	case d.List != "":
		return state.ListTexts(&q.Query, d.List, nil)
	case d.Answer != "":
		return state.Parse(d.Answer).With(q.Value), nil
	}
	return "", state.Fail(d.Code, "%s", state.Parse(d.Text).With(q.Value))
}

// fill is a document in which {names} are replaced by values. In the pairs a name comes
// before its value.
func fill(path string, pairs ...any) string {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i].(string)] = fmt.Sprint(pairs[i+1]) //nolint:forcetypeassert // it is our own
	}
	return state.Parse(documents()[path]).With(func(name string) string { return values[name] })
}

// document answers with what stands under a path, of a list the page that is asked for.
func document(q *query) (string, error) {
	text, ok := documents()[q.path]
	if !ok {
		return "", notImplemented
	}
	if text = state.Parse(text).With(q.Value); !gjson.Get(text, "pagination.total").Exists() {
		return text, nil
	}
	return q.Paged(text)
}

// smart answers the queries that the contract has documents for.
func smart(q *query) (string, error) {
	if !gjson.Valid(q.args["query_data"]) {
		return "", state.Fail(state.InvalidArgument, "invalid query data")
	}
	if _, known := documents()[q.path]; !known {
		return "", state.Fail(state.Unknown, "codespace wasm code 9: query wasm contract failed: Error parsing into type hackatom::msg::QueryMsg: unknown variant")
	}
	return document(q)
}
