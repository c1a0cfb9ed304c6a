package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/upstream/account"
)

// event is an answer, a failure or a block.
type event struct {
	name   string // "" for answers, which browsers pass to onmessage
	height string // of an answer: the first block at which this content was read
	tag    string // of an answer: its ETag without quotes
	digest digest // of the content, or the part of a body to compare: an event with the digest of the last one is not sent
	data   []byte // one line

	rendered atomic.Pointer[rendering] // the latest rendering

	// Of an answer only. Topics hold it, and clients while they write it.
	memory     *account.Hold // nil for failures and blocks
	held       atomic.Int64  // number of holders; never rises again after reaching 0
	mu         sync.Mutex    // held during compression
	compressed []byte        // data as deflate blocks; nil if not compressed yet, or without memory for it
}

// rendering is an event as sent to the clients that follow it under one path.
type rendering struct {
	path  string // "" for a stream of a single path
	plain pieces
	once  sync.Once
	coded *pieces // in gzip; set by once; nil without memory for it
}

// pieces are written one after another. The data of a small event is part of before, so that it takes one write.
type pieces struct{ before, data, after []byte }

// smallEvent is the maximum length of data, in bytes, that renderings copy.
const smallEvent = 2 << 10

// failureEvent reports that the answer could not be read again. The stream goes on.
func failureEvent(err error) *event {
	f := failure.Of(err)
	data, _ := json.Marshal(struct { // cannot fail
		Code  int    `json:"code"`
		Error string `json:"error"`
	}{f.Status, f.Public})
	return &event{name: "failure", digest: digestOf([]byte(f.Public)), data: data}
}

// blockEvent announces a block, with the session token of a client that has seen it and the newest block of the
// execution chain that its state includes; 0 for none.
func blockEvent(height, executed int64, h session.History) *event {
	data := fmt.Appendf(nil, `{"height":%d,"session":%q`, height, session.TokenAt(height, h))
	if executed > 0 {
		data = fmt.Appendf(data, `,"evm_block":%d`, executed)
	}
	return &event{name: "block", digest: digest(height), data: append(data, '}')}
}

// equals reports whether two events of a topic have the same content.
func (e *event) equals(other *event) bool {
	return e == other || e != nil && other != nil && e.digest == other.digest
}

// oneLine returns a JSON text without line breaks, which would end an event.
func oneLine(body []byte) []byte {
	body = bytes.TrimRight(body, "\r\n")
	if !bytes.ContainsAny(body, "\r\n") {
		return body
	}
	var line bytes.Buffer
	if json.Compact(&line, body) != nil {
		quoted, _ := json.Marshal(string(body)) // not JSON: send it as a string
		return quoted
	}
	return line.Bytes()
}

// render returns the event as sent to clients that follow it under path ("" outside /live). All clients that use
// the same path share the bytes.
func (e *event) render(path string) *rendering {
	for {
		r := e.rendered.Load()
		if r != nil && r.path == path {
			return r
		}
		head, tail := e.frame(path)
		created := &rendering{path: path, plain: pieces{before: head, data: e.data, after: tail}.joined()}
		if e.rendered.CompareAndSwap(r, created) {
			return created
		}
	}
}

// frame returns the text before and after the data.
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

// inGzip returns the event as deflate blocks, or nil if there is no memory for them. The data is compressed
// once for all paths.
func (r *rendering) inGzip(e *event) *pieces {
	r.once.Do(func() {
		data := e.deflated()
		if data == nil {
			return
		}
		head, tail := e.frame(r.path)
		coded := pieces{stored(nil, head), data, append(stored(nil, tail), flushed...)}.joined()
		r.coded = &coded
	})
	return r.coded
}

// joined moves small data and what follows into before.
func (p pieces) joined() pieces {
	if len(p.data) <= smallEvent {
		p.before = slices.Concat(p.before, p.data, p.after)
		p.data, p.after = nil, nil
	}
	return p
}
