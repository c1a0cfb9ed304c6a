package proxy

import (
	"net/http"
	"strconv"
)

// headers collects response headers and sets them with two allocations in
// all: the values are rendered into one text, and their slices cut from one
// array. Names must be in canonical form. The zero value is ready.
type headers struct {
	n     int
	name  [maxHeaders]string
	end   [maxHeaders]int // where the value ends in the text
	value [maxHeaders]string
	text  []byte
	room  [headerRoom]byte // the text's first home
}

const (
	maxHeaders = 12  // more are a programming error
	headerRoom = 400 // all values of an ordinary answer
)

// begin starts the value of a header; what is appended to the result and
// given to finish is that value.
func (h *headers) begin(name string) []byte {
	if h.text == nil {
		h.text = h.room[:0]
	}
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

// writeTo sets the headers collected.
func (h *headers) writeTo(header http.Header) {
	text, start := string(h.text), 0
	for i := range h.n {
		h.value[i] = text[start:h.end[i]]
		header[h.name[i]] = h.value[i : i+1 : i+1] // full: an append by others must not reach the next value
		start = h.end[i]
	}
}
