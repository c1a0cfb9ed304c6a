package stream

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"runtime"
	"slices"

	"github.com/klauspost/compress/flate"
)

// output writes a client's stream as plain text or in gzip. Each text ends with a flush after which nothing refers
// to earlier bytes, so that a text for many clients is compressed once.
type output struct {
	to        io.Writer
	gzip      bool
	crc, size uint32 // of all texts, as in the gzip trailer; not counted for plain text
	failed    error  // first write error; nothing is written after it
}

// begin writes the gzip header.
func (o *output) begin() {
	if o.gzip {
		o.write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}) // RFC 1952: deflate, no name, no time, any system
	}
}

func (o *output) write(bytes []byte) {
	if o.failed == nil && len(bytes) > 0 {
		_, o.failed = o.to.Write(bytes)
	}
}

// text writes texts that are not compressed.
func (o *output) text(texts ...[]byte) {
	if !o.gzip {
		for _, text := range texts {
			o.write(text)
		}
		return
	}
	o.count(texts...)
	for _, text := range texts {
		for block := range slices.Chunk(text, mostStored) {
			o.write(storedHead(block))
			o.write(block)
		}
	}
	o.write(flushed)
}

// count adds texts to the checksum and the size.
func (o *output) count(texts ...[]byte) {
	for _, text := range texts {
		o.crc = crc32.Update(o.crc, crc32.IEEETable, text)
		o.size += uint32(len(text))
	}
}

// event writes an event that clients share, as sent under path.
func (o *output) event(e *event, path string) {
	r := e.render(path)
	p := &r.plain
	if o.gzip {
		coded := r.inGzip(e)
		if coded == nil {
			o.text(p.before, p.data, p.after)
			return
		}
		o.count(p.before, p.data, p.after)
		p = coded
	}
	o.write(p.before)
	o.write(p.data)
	o.write(p.after)
}

// end writes the gzip trailer.
func (o *output) end() {
	if o.gzip {
		end := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0xff, 0xff}, o.crc) // an empty last block
		o.write(binary.LittleEndian.AppendUint32(end, o.size))
	}
}

// flushed is an empty block. It lets readers decode everything before it.
var flushed = []byte{0, 0, 0, 0xff, 0xff}

// mostStored is the maximum length of an uncompressed block, in bytes.
const mostStored = 1<<16 - 1

// storedHead returns the header of an uncompressed block (RFC 1951).
func storedHead(block []byte) []byte {
	n := len(block)
	return []byte{0, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)}
}

// stored appends a text in uncompressed blocks.
func stored(b, text []byte) []byte {
	for block := range slices.Chunk(text, mostStored) {
		b = append(append(b, storedHead(block)...), block...)
	}
	return b
}

// deflaters holds idle compressors, at most four and at most one per processor; nil stands for one not created
// yet. Each takes a megabyte. They use level 6, as gzip responses do.
var deflaters = func() chan *flate.Writer {
	all := make(chan *flate.Writer, min(runtime.GOMAXPROCS(0), 4))
	for range cap(all) {
		all <- nil
	}
	return all
}()

// deflate returns a text as deflate blocks that refer to nothing before them and end on a byte boundary.
func deflate(text []byte) []byte {
	var to bytes.Buffer
	w := <-deflaters
	defer func() { deflaters <- w }()
	if w == nil {
		w, _ = flate.NewWriter(&to, 6) // a valid level
	} else {
		w.Reset(&to)
	}
	_, _ = w.Write(text) // a buffer never fails
	_ = w.Flush()
	w.Reset(io.Discard) // releases the text
	return bytes.Clone(to.Bytes())
}
