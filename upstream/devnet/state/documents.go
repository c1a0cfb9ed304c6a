package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// A Message is JSON in which {names} stand for values.
type Message struct{ texts, names []string } // one name behind each text but the last

var placeholder = regexp.MustCompile(`\{\w+\}`)

// Parse reads a message.
func Parse(text string) (m Message) {
	for at := placeholder.FindStringIndex(text); at != nil; at = placeholder.FindStringIndex(text) {
		m.texts, m.names, text = append(m.texts, text[:at[0]]), append(m.names, text[at[0]+1:at[1]-1]), text[at[1]:]
	}
	m.texts = append(m.texts, text)
	return m
}

// With puts the values in.
func (m Message) With(value func(name string) string) string {
	var b strings.Builder
	for i, name := range m.names {
		b.WriteString(m.texts[i])
		b.WriteString(value(name))
	}
	b.WriteString(m.texts[len(m.names)])
	return b.String()
}

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

// Paged is a page of a document that has pagination and a list first, else the document.
func (q *Query) Paged(text string) (string, error) {
	var name string
	var list gjson.Result
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		name, list = key.String(), value
		return false
	})
	if !gjson.Get(text, "pagination").IsObject() || !list.IsArray() {
		return text, nil
	}
	body, err := ListTexts(q, name, Raws(list))
	if height := gjson.Get(text, "height"); err == nil && height.Exists() {
		return fmt.Sprintf(`%s,"height":%s}`, body[:len(body)-1], height.Raw), nil
	}
	return body, err
}

// Raws are the items of a list as they are written.
func Raws(list gjson.Result) (items []string) {
	for _, item := range list.Array() {
		items = append(items, item.Raw)
	}
	return items
}

// ListTexts is List for texts that have no keys but their places.
func ListTexts(q *Query, name string, texts []string) (string, error) {
	places := make([]int, len(texts))
	for i := range places {
		places[i] = i
	}
	return List(q, name, places, func(i int) string { return fmt.Sprintf("%08d", i) }, func(i int) string { return texts[i] })
}
