package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/session"
)

// An event is an answer, a failure or a block.
type event struct {
	name   string // "" for answers, so that onmessage gets them
	height string // of an answer
	tag    string // of an answer, its ETag without quotes
	digest digest // of what it tells: the event after one with the same digest is not sent
	data   []byte // one line
	*body         // of an answer, which has the data

	rendered atomic.Pointer[rendering] // the last one
}

// A rendering is an event as clients get it that follow it under a path.
type rendering struct {
	path  string // "" for a stream of one path
	plain pieces
	once  sync.Once
	coded pieces // in gzip; made by once
}

// pieces are written one after another: before has the data of a small event, too, so
// that it is one write.
type pieces struct {
	before, data, after []byte
	part                part // of the text; for gzip alone
}

// smallEvent bounds the data, in bytes, of which a rendering has a copy.
const smallEvent = 2 << 10

// answerEvent is the event of an answer, which is that answer's body. The error says that
// there is no room for it.
func (ts *topics) answerEvent(e *cache.Entry, essence []byte) (*event, error) {
	b, err := ts.bodies.keep(oneLine(e.Body))
	if err != nil {
		return nil, err
	}
	return &event{height: strconv.FormatInt(e.Height, 10), tag: tagOf(e), digest: digestOf(essence), data: b.text, body: b}, nil
}

// release undoes hold. An event that is nil holds nothing.
func (e *event) release() {
	if e != nil {
		e.body.release()
	}
}

func tagOf(e *cache.Entry) string { return strings.Trim(e.ETag, `"`) }

// failureEvent tells that the answer could not be read anew. The stream goes on.
func failureEvent(err error) *event {
	f := failure.Of(err)
	data, _ := json.Marshal(struct { // cannot fail
		Code  int    `json:"code"`
		Error string `json:"error"`
	}{f.Status, f.Public})
	return &event{name: "failure", digest: digestOf([]byte(f.Public)), data: data}
}

// blockEvent says that a block has come, and the session of a client that has seen it.
func blockEvent(height int64, h session.History) *event {
	text := strconv.FormatInt(height, 10)
	return &event{name: "block", digest: digest(height), data: []byte(`{"height":` + text + `,"session":"` + session.TokenAt(height, h).String() + `"}`)}
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

// render gives the event as it is sent, in /live with the path that it belongs to. It is
// the same bytes for all clients that name a path alike, made once.
func (e *event) render(path string) *rendering {
	for {
		r := e.rendered.Load()
		if r != nil && r.path == path {
			return r
		}
		head, tail := e.frame(path)
		made := &rendering{path: path, plain: pieces{before: head, data: e.data, after: tail}.joined()}
		if e.rendered.CompareAndSwap(r, made) {
			return made
		}
	}
}

// frame is what stands before and after the data.
func (e *event) frame(path string) (head, tail []byte) {
	if e.height != "" {
		head = fmt.Appendf(head, "id: %s.%s\n", e.height, e.tag)
	}
	if e.name != "" {
		head = fmt.Appendf(head, "event: %s\n", e.name)
	}
	head = append(head, "data: "...)
	if path == "" {
		return head, []byte("\n\n")
	}
	quoted, _ := json.Marshal(path)
	return fmt.Appendf(head, `{"path":%s,"height":%s,"answer":`, quoted, cmp.Or(e.height, "0")), []byte("}\n\n")
}

// inGzip gives the event in blocks of deflate. Its data are compressed once under all
// paths.
func (r *rendering) inGzip(e *event) *pieces {
	r.once.Do(func() {
		head, tail := e.frame(r.path)
		coded := pieces{before: stored(nil, head), after: append(stored(nil, tail), flushed...)}
		if e.body != nil {
			coded.data = e.deflated()
		} else {
			coded.data = stored(nil, e.data)
		}
		r.coded = coded.joined()
		r.coded.part = partOf(head, e.data, tail)
	})
	return &r.coded
}

// joined are pieces of which the first has all, where that is little.
func (p pieces) joined() pieces {
	if len(p.data) <= smallEvent {
		p.before = slices.Concat(p.before, p.data, p.after)
		p.data, p.after = nil, nil
	}
	return p
}
