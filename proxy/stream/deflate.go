package stream

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// flushed is an empty block, by which readers know that they have all there is.
var flushed = []byte{0, 0, 0, 0xff, 0xff}

const (
	storedHead = 5         // bytes before the text of a stored block
	mostStored = 1<<16 - 1 // bytes of text in one
)

// stored appends a text in blocks that are not compressed (RFC 1951).
func stored(b, text []byte) []byte {
	for len(text) > 0 {
		n := min(len(text), mostStored)
		b = append(b, 0, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		b, text = append(b, text[:n]...), text[n:]
	}
	return b
}

// deflaters are compressors that wait for work. Level 6 is what answers in gzip have.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, 6) // a valid level
	return w
}}

// deflate is a text in blocks that refer to nothing before them, and are whole bytes.
func deflate(text []byte) []byte {
	var to bytes.Buffer
	w := deflaters.Get().(*flate.Writer) //nolint:forcetypeassert // the pool has no others
	w.Reset(&to)
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Flush()
	deflaters.Put(w)
	return bytes.Clone(to.Bytes())
}
