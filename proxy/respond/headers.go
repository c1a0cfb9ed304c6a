package respond

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/tipcache/tipcache/proxy/limits"
)

// Headers of our own.
const (
	HeightHeader    = "X-Block-Height"
	MinHeightHeader = "X-Min-Block-Height"
	EVMBlockHeader  = "X-Evm-Block"
	MinEVMHeader    = "X-Min-Evm-Block"
	RequestIDHeader = "X-Request-Id"
	UnknownHeader   = "X-Unknown-Parameters" // query parameters that were ignored and are probably typos
)

// JSON is the media type of most bodies.
const JSON = "application/json"

// headers collects response headers and sets them with two allocations: the values are parts of one string, and their
// slices parts of one array. Names must be in canonical form.
type headers struct {
	n     int
	name  [maxHeaders]string
	value [maxHeaders]string // a value that is a string already, which HTTP/2 finds fast in its table; "" if the value is in text
	end   [maxHeaders]int    // end of the value in text
	text  []byte
	room  [headerRoom]byte // initial buffer of text
}

const (
	maxHeaders = 24  // exceeding it is a programming error
	headerRoom = 480 // fits all values of an ordinary response
)

var collectors = sync.Pool{New: func() any { return new(headers) }}

// collect begins a collection, which writeTo or Rendering.AppendTo ends.
func collect() *headers {
	h := collectors.Get().(*headers) //nolint:forcetypeassert // the pool has no others
	h.n, h.text = 0, h.room[:0]
	return h
}

// begin starts the value of a header. The caller appends the value to the result and passes it to finish.
func (h *headers) begin(name string) []byte {
	h.name[h.n], h.value[h.n] = name, ""
	return h.text
}

func (h *headers) finish(text []byte) {
	h.text = text
	h.end[h.n] = len(text)
	h.n++
}

func (h *headers) set(name, value string) {
	text := append(h.begin(name), value...)
	h.value[h.n] = value
	h.finish(text)
}

func (h *headers) setInt(name string, value int64) {
	h.finish(strconv.AppendInt(h.begin(name), value, 10))
}

// writeTo sets the collected headers. h must not be used afterwards.
func (h *headers) writeTo(header http.Header) {
	text, start := string(h.text), 0
	values := make([]string, h.n)
	for i := range h.n {
		if values[i] = h.value[i]; values[i] == "" {
			values[i] = text[start:h.end[i]]
		}
		if name := h.name[i]; name == limits.StatusHeader || name == limits.PolicyHeader { // one for each limit
			header[name] = append(header[name], values[i])
		} else {
			header[name] = values[i : i+1 : i+1] // full capacity, so that an append cannot overwrite the next value
		}
		start = h.end[i]
	}
	collectors.Put(h)
}
