package stream

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
)

// output writes a client's stream as plain text or in gzip. Each text ends with a flush after which nothing refers
// to earlier bytes, so that a text for many clients is compressed once.
type output struct {
	to     io.Writer
	gzip   bool
	sum    checksum // of all texts
	failed error    // first write error; nothing is written after it
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
	o.sum = o.sum.then(partOf(texts...))
	for _, text := range texts {
		for block := range slices.Chunk(text, mostStored) {
			o.write(storedHead(block))
			o.write(block)
		}
	}
	o.write(flushed)
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
		p = coded
		o.sum = o.sum.then(p.part)
	}
	o.write(p.before)
	o.write(p.data)
	o.write(p.after)
}

// end writes the gzip trailer.
func (o *output) end() {
	if o.gzip {
		end := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0xff, 0xff}, o.sum.crc) // an empty last block
		o.write(binary.LittleEndian.AppendUint32(end, o.sum.size))
	}
}

// checksum is the checksum of a text, as in the gzip trailer.
type checksum struct {
	crc  uint32
	size uint32 // modulo 2^32
}

// part is the checksum of a text that can be appended to another one.
type part struct {
	checksum
	shift uint32 // factor for the CRC of the text before it
}

func partOf(texts ...[]byte) (p part) {
	for _, text := range texts {
		p.crc = crc32.Update(p.crc, crc32.IEEETable, text)
		p.size += uint32(len(text))
	}
	p.shift = shiftBy(p.size)
	return p
}

// then returns the checksum of a text followed by p.
func (s checksum) then(p part) checksum {
	return checksum{multiply(p.shift, s.crc) ^ p.crc, s.size + p.size}
}

// A CRC is a polynomial over GF(2), modulo the IEEE 802.3 polynomial. Its highest bit is the coefficient of x^0.
const one = 1 << 31

// multiply returns the product of two CRC polynomials.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1) // times x
	}
	return product
}

// shiftBy returns x to the power of 8*bytes.
func shiftBy(bytes uint32) uint32 {
	result, square := uint32(one), uint32(one>>8) // x^8
	for ; bytes != 0; bytes >>= 1 {
		if bytes&1 != 0 {
			result = multiply(square, result)
		}
		square = multiply(square, square)
	}
	return result
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

// deflaters holds idle compressors, which take a megabyte each. They use level 6, as gzip responses do.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, 6) // a valid level
	return w
}}

// deflate returns a text as deflate blocks that refer to nothing before them and end on a byte boundary.
func deflate(text []byte) []byte {
	var to bytes.Buffer
	w := deflaters.Get().(*flate.Writer) //nolint:forcetypeassert // New returns no other type
	w.Reset(&to)
	_, _ = w.Write(text) // a buffer never fails
	_ = w.Flush()
	w.Reset(io.Discard) // releases the text
	deflaters.Put(w)
	return bytes.Clone(to.Bytes())
}
