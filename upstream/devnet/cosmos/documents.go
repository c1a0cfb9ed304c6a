package cosmos

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

//go:embed documents.jsonl
var documentLines []byte

//go:embed routes.jsonl
var routeLines []byte

// parseLines reads JSON values, one in each line.
func parseLines[T any](lines []byte) (all []T) {
	for line := range bytes.Lines(lines) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			panic(fmt.Sprintf("cosmos: %s: %v", line, err))
		}
		all = append(all, one)
	}
	return all
}

// documents are the answers of what stands still, by path.
var documents = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, pair := range parseLines[[2]string](documentLines) {
		all[pair[0]] = pair[1]
	}
	return all
})

// A documentRoute is a route whose answers are documents.
type documentRoute struct {
	Pattern, Params string   // as in a route
	Key             []string // the parameters in the path of the document
	List            string   // the name of the list that is empty where there is no document
	Code            int      // or else how the module fails
	Text            string   // with {name} for arguments
}

// documented are the routes of routes.jsonl.
func documented() (all []route) {
	for _, d := range parseLines[documentRoute](routeLines) {
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
	return documentElse(func(q *query) (string, error) {
		if d.List != "" {
			return listTexts(q, d.List, nil)
		}
		var values []string
		for name, value := range q.args {
			values = append(values, "{"+name+"}", value)
		}
		for _, name := range d.Key {
			values = append(values, "{"+name+"}", "") // where it is left out
		}
		return "", fail(d.Code, "%s", strings.NewReplacer(values...).Replace(d.Text))
	})(q)
}

// fill is a document in which {names} are replaced by values. In the pairs a name comes
// before its value.
func fill(path string, pairs ...any) string {
	texts := make([]string, len(pairs))
	for i := range pairs {
		texts[i] = fmt.Sprint(pairs[i])
		if i%2 == 0 {
			texts[i] = "{" + texts[i] + "}"
		}
	}
	return strings.NewReplacer(texts...).Replace(documents()[path])
}

// document answers with what stands under a path, paged if it is a list.
func document(q *query) (string, error) {
	if _, ok := documents()[q.path]; !ok {
		return "", notImplemented
	}
	return q.paged(fill(q.path, "chain", q.chain.id, "height", q.height))
}

// paged is a page of a document that has pagination, else the document.
func (q *query) paged(text string) (string, error) {
	if !gjson.Get(text, "pagination.total").Exists() {
		return text, nil
	}
	var name string
	var items []string
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		name, items = key.String(), rawItems(value)
		return false // the list is the first member
	})
	body, err := listTexts(q, name, items)
	if height := gjson.Get(text, "height"); err == nil && height.Exists() {
		return fmt.Sprintf(`%s,"height":%s}`, body[:len(body)-1], height.Raw), nil
	}
	return body, err
}

func rawItems(list gjson.Result) (items []string) {
	for _, item := range list.Array() {
		items = append(items, item.Raw)
	}
	return items
}

// documentElse answers with a document, or otherwise where there is none.
func documentElse(otherwise handler) handler {
	return func(q *query) (string, error) {
		if body, err := document(q); !errors.Is(err, notImplemented) {
			return body, err
		}
		return otherwise(q)
	}
}

// fixed always answers the same; failing always fails the same way.
func fixed(body string) handler { return func(*query) (string, error) { return body, nil } }
func failing(err error) handler { return func(*query) (string, error) { return "", err } }
