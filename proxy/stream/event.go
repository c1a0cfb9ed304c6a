package stream

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// An event is rendered but for the path, which /live puts before its body.
type event struct {
	id   string // <height>.<etag without quotes>; "" for none
	name string // "" for answers, so that onmessage gets them
	tag  string // of what the event says: an event with the tag of the one before says nothing new
	data []byte // one line
}

// answerEvent is the event of an answer, which is that answer's body.
func answerEvent(e *cache.Entry) *event {
	return &event{id: strconv.FormatInt(e.Height, 10) + "." + tagOf(e), tag: tagOf(e), data: oneLine(e.Body)}
}

func tagOf(e *cache.Entry) string { return strings.Trim(e.ETag, `"`) }

// failureEvent tells that the answer could not be read anew. The stream goes on.
func failureEvent(err error) *event {
	f := web.FailureOf(err)
	data, _ := json.Marshal(struct { // cannot fail
		Code  int    `json:"code"`
		Error string `json:"error"`
	}{f.Status, f.Public})
	return &event{name: "failure", tag: f.Public, data: data}
}

// blockEvent tells of a block.
func blockEvent(height int64) *event {
	text := strconv.FormatInt(height, 10)
	return &event{name: "block", tag: text, data: []byte(`{"height":` + text + `}`)}
}

// oneLine is a JSON text without line breaks, which would end an event.
func oneLine(body []byte) []byte {
	body = bytes.TrimRight(body, "\r\n")
	if !bytes.ContainsAny(body, "\r\n") {
		return body
	}
	var line bytes.Buffer
	if json.Compact(&line, body) != nil {
		quoted, _ := json.Marshal(string(body)) // what is no JSON becomes a text
		return quoted
	}
	return line.Bytes()
}

// A writer is where events are written; *bufio.Writer is one.
type writer interface {
	Write(p []byte) (int, error)
	WriteString(s string) (int, error)
}

// writeTo writes the event, in /live with the path that it belongs to. Errors stay with w.
func (e *event) writeTo(w writer, path string) {
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = w.WriteString(text)
		}
	}
	if e.id != "" {
		write("id: ", e.id, "\n")
	}
	if e.name != "" {
		write("event: ", e.name, "\n")
	}
	write("data: ")
	if path != "" {
		quoted, _ := json.Marshal(path)
		write(`{"path":`, string(quoted), `,"height":`, e.height(), `,"answer":`)
	}
	_, _ = w.Write(e.data)
	if path != "" {
		write("}")
	}
	write("\n\n")
}

func (e *event) height() string {
	height, _, ok := strings.Cut(e.id, ".")
	if !ok {
		return "0"
	}
	return height
}
