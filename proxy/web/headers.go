package web

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
)

// headers collects response headers and sets them with two allocations in
// all: the values are rendered into one text, and their slices cut from one
// array. Names must be in canonical form.
type headers struct {
	n    int
	name [maxHeaders]string
	end  [maxHeaders]int // where the value ends in the text
	text []byte
	room [headerRoom]byte // the text's first home
}

const (
	maxHeaders = 20  // more are a programming error
	headerRoom = 400 // all values of an ordinary answer
)

var collectors = sync.Pool{New: func() any { return new(headers) }}

// collect begins a collection, which writeTo ends.
func collect() *headers {
	h := collectors.Get().(*headers) //nolint:forcetypeassert // the pool has no others
	h.n, h.text = 0, h.room[:0]
	return h
}

// begin starts the value of a header; what is appended to the result and
// given to finish is that value.
func (h *headers) begin(name string) []byte {
	h.name[h.n] = name
	return h.text
}

func (h *headers) finish(text []byte) {
	h.text = text
	h.end[h.n] = len(text)
	h.n++
}

func (h *headers) set(name, value string) {
	h.finish(append(h.begin(name), value...))
}

func (h *headers) setInt(name string, value int64) {
	h.finish(strconv.AppendInt(h.begin(name), value, 10))
}

// appendTo appends the headers as they are sent, and must be the last that is
// done with h. ok is false if one of them cannot be sent as it is.
func (h *headers) appendTo(b []byte) (text []byte, ok bool) {
	start := 0
	for i := range h.n {
		b = append(append(b, h.name[i]...), ": "...)
		b = append(append(b, h.text[start:h.end[i]]...), "\r\n"...)
		start = h.end[i]
	}
	ok = bytes.IndexByte(h.text, '\n') < 0 && bytes.IndexByte(h.text, '\r') < 0
	collectors.Put(h)
	return b, ok
}

// writeTo sets the headers collected, and must be the last that is done with h.
func (h *headers) writeTo(header http.Header) {
	text, start := string(h.text), 0
	values := make([]string, h.n)
	for i := range h.n {
		values[i] = text[start:h.end[i]]
		header[h.name[i]] = values[i : i+1 : i+1] // full: an append by others must not reach the next value
		start = h.end[i]
	}
	collectors.Put(h)
}
