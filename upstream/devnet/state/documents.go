package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Lines reads JSON values, one in each line.
func Lines[T any](lines []byte) (all []T) {
	for line := range bytes.Lines(lines) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			panic(fmt.Sprintf("devnet: %s: %v", line, err))
		}
		all = append(all, one)
	}
	return all
}

// Answer returns a document or its error. In the document ${name} stands for a value. If it has pagination, its first
// list is cut to the requested page.
func (q *Query) Answer(document string) (string, error) {
	text := os.Expand(document, q.Value)
	if code := gjson.Get(text, "code").Uint(); code > 0 {
		return "", status.Error(codes.Code(code), gjson.Get(text, "message").String())
	}
	return q.Paged(text)
}

// Paged cuts the first list of a document to the requested page, if the document has pagination.
func (q *Query) Paged(text string) (string, error) {
	list, members := "", []string(nil)
	var page gjson.Result
	var err error
	if !gjson.Get(text, "pagination").IsObject() {
		return text, nil
	}
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		if list == "" && value.IsArray() {
			var body string
			list = key.String()
			body, err = List(q, list, value.Array(), place, func(item gjson.Result) string { return item.Raw })
			page = gjson.Parse(body)
		}
		if list != "" && (key.String() == list || key.String() == "pagination") {
			value = page.Get(key.String())
		}
		members = append(members, key.Raw+":"+value.Raw)
		return err == nil
	})
	return "{" + strings.Join(members, ",") + "}", err
}

// place returns the key of an item: the id of a period delegation, as on a node, and the position of any other.
func place(item gjson.Result) string {
	if id := item.Get("period_delegation.period_delegation_id").Str; id != "" {
		return id
	}
	return fmt.Sprintf("%08d", item.Index)
}
