package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// An event is an answer, a failure or a block.
type event struct {
	name   string // "" for answers, so that onmessage gets them
	height string // of an answer
	tag    string // of an answer, its ETag without quotes
	digest digest // of what it tells: the event after one with the same digest is not sent
	data   []byte // one line

	rendered atomic.Pointer[rendering] // the last one
}

// A rendering is an event as clients get it that follow it under a path.
type rendering struct {
	path string // "" for a stream of one path
	text []byte
}

// answerEvent is the event of an answer, which is that answer's body.
func answerEvent(e *cache.Entry, essence []byte) *event {
	return &event{height: strconv.FormatInt(e.Height, 10), tag: tagOf(e), digest: digestOf(essence), data: oneLine(e.Body)}
}

func tagOf(e *cache.Entry) string { return strings.Trim(e.ETag, `"`) }

// failureEvent tells that the answer could not be read anew. The stream goes on.
func failureEvent(err error) *event {
	f := web.FailureOf(err)
	data, _ := json.Marshal(struct { // cannot fail
		Code  int    `json:"code"`
		Error string `json:"error"`
	}{f.Status, f.Public})
	return &event{name: "failure", digest: digestOf([]byte(f.Public)), data: data}
}

// blockEvent says that a block has come.
func blockEvent(height int64) *event {
	text := strconv.FormatInt(height, 10)
	return &event{name: "block", digest: digest(height), data: []byte(`{"height":` + text + `}`)}
}

// saysAs tells whether two events of a topic tell a client the same.
func (e *event) saysAs(other *event) bool {
	return e == other || e != nil && other != nil && e.digest == other.digest
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

// text is the event as it is sent, in /live with the path that it belongs to. It
// is the same bytes for all clients that name a path alike.
func (e *event) text(path string) []byte {
	if r := e.rendered.Load(); r != nil && r.path == path {
		return r.text
	}
	r := &rendering{path, e.render(path)}
	e.rendered.Store(r)
	return r.text
}

func (e *event) render(path string) []byte {
	var b bytes.Buffer
	b.Grow(len(e.data) + len(path) + 128)
	write := func(texts ...string) {
		for _, text := range texts {
			b.WriteString(text)
		}
	}
	if e.height != "" {
		write("id: ", e.height, ".", e.tag, "\n")
	}
	if e.name != "" {
		write("event: ", e.name, "\n")
	}
	write("data: ")
	if path != "" {
		quoted, _ := json.Marshal(path)
		write(`{"path":`, string(quoted), `,"height":`, cmp.Or(e.height, "0"), `,"answer":`)
	}
	b.Write(e.data)
	if path != "" {
		write("}")
	}
	write("\n\n")
	return b.Bytes()
}
