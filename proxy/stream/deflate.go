package stream

import (
	"bytes"
	"io"
	"runtime"

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

// deflaters are compressors that wait for work, nil where one is to be made: as many as there
// are processors, up to four. Each holds a megabyte. Level 6 is what answers in gzip have.
var deflaters = func() chan *flate.Writer {
	all := make(chan *flate.Writer, min(runtime.GOMAXPROCS(0), 4))
	for range cap(all) {
		all <- nil
	}
	return all
}()

// deflate is a text in blocks that refer to nothing before them, and are whole bytes.
func deflate(text []byte) []byte {
	var to bytes.Buffer
	w := <-deflaters
	defer func() { deflaters <- w }()
	if w == nil {
		w, _ = flate.NewWriter(&to, 6) // a valid level
	} else {
		w.Reset(&to)
	}
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Flush()
	w.Reset(io.Discard) // it would keep the text
	return bytes.Clone(to.Bytes())
}
