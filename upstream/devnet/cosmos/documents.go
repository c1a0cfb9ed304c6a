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
func document(q *query) (string, error) {
	text, ok := documents()[q.path]
	if !ok {
		return "", notImplemented
	}
	return q.paged(strings.ReplaceAll(text, shownChain, q.state.chain.id))
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

// documentOr answers with a document, or fails as the module does.
func documentOr(code int, format string, names ...string) handler {
	return documentElse(func(q *query) (string, error) {
		values := make([]any, len(names))
		for i, name := range names {
			values[i] = q.args[name]
		}
		return "", fail(code, format, values...)
	})
}

// documentOrEmpty answers with a document, or an empty list.
func documentOrEmpty(name string) handler {
	return documentElse(func(q *query) (string, error) { return listTexts(q, name, nil) })
}

// byParameters answers with the document of path and query, or as otherwise says.
func byParameters(otherwise handler, names ...string) handler {
	return func(q *query) (string, error) {
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
