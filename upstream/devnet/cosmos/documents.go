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

// documents are the answers of what stands still, by path.
var documents = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range bytes.Lines(documentLines) {
		var pair [2]string
		if err := json.Unmarshal(line, &pair); err != nil {
			panic(fmt.Sprintf("cosmos: documents: %v", err))
		}
		all[pair[0]] = pair[1]
	}
	return all
})

// document answers with what stands under a path, paged if it is a list.
func document(q *query) ([]byte, error) {
	text, ok := documents()[q.path]
	if !ok {
		return nil, notImplemented
	}
	return q.paged(strings.ReplaceAll(text, shownChain, q.state.chain.id))
}

// paged is a page of a document that has pagination, else the document.
func (q *query) paged(text string) ([]byte, error) {
	if !gjson.Get(text, "pagination.total").Exists() {
		return []byte(text), nil
	}
	name, items := firstMember(text)
	body, err := q.page.render(listing{
		name: name, size: len(items),
		key:  func(i int) string { return fmt.Sprintf("%08d", i) },
		item: func(i int) string { return items[i].Raw },
	})
	if height := gjson.Get(text, "height"); err == nil && height.Exists() {
		return fmt.Appendf(body[:len(body)-1], `,"height":%s}`, height.Raw), nil
	}
	return body, err
}

// firstMember is the list that a document begins with.
func firstMember(text string) (name string, items []gjson.Result) {
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		name, items = key.String(), value.Array()
		return false
	})
	return name, items
}

// documentOr answers with a document, or fails as the module does.
func documentOr(code int, format string, names ...string) func(*query) ([]byte, error) {
	return func(q *query) ([]byte, error) {
		if body, err := document(q); !errors.Is(err, notImplemented) {
			return body, err
		}
		values := make([]any, len(names))
		for i, name := range names {
			values[i] = q.args[name]
		}
		return nil, fail(code, format, values...)
	}
}

// documentOrEmpty answers with a document, or an empty list.
func documentOrEmpty(name string) func(*query) ([]byte, error) {
	return func(q *query) ([]byte, error) {
		if body, err := document(q); !errors.Is(err, notImplemented) {
			return body, err
		}
		return q.page.render(listing{name: name})
	}
}

// byParameters answers with the document of path and query, or as otherwise says.
func byParameters(otherwise func(*query) ([]byte, error), names ...string) func(*query) ([]byte, error) {
	return func(q *query) ([]byte, error) {
		path, sep := q.path, "?"
		for _, name := range names {
			if value, given := q.args[name]; given {
				path, sep = path+sep+name+"="+value, "&"
			}
		}
		if text, ok := documents()[path]; ok {
			return q.paged(text)
		}
		return otherwise(q)
	}
}
