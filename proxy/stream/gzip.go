package stream

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"runtime"

	"github.com/klauspost/compress/flate"
)

// An output is what a client's stream is written to: the texts as they are, or in gzip.
// There each text ends with a flush after which nothing refers to what was before, so
// that what many clients get is encoded once for all of them.
type output struct {
	to     io.Writer
	gzip   bool
	sum    checksum // of all texts
	failed error    // after which nothing is written
}

// begin writes what comes before the first text.
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

// text writes a text of this client's own.
func (o *output) text(text []byte) {
	if !o.gzip {
		o.write(text)
		return
	}
	o.sum = o.sum.then(partOf(text))
	o.write(append(stored(make([]byte, 0, len(text)+2*storedHead), text), flushed...))
}

// event writes an event that clients have in common, to one that follows it under a path.
func (o *output) event(e *event, path string) {
	r := e.render(path)
	p := &r.plain
	if o.gzip {
		p = r.inGzip(e)
		o.sum = o.sum.then(p.part)
	}
	o.write(p.before)
	o.write(p.data)
	o.write(p.after)
}

// end writes what comes after the last text.
func (o *output) end() {
	if o.gzip {
		end := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0xff, 0xff}, o.sum.crc) // after the last block, which is empty
		o.write(binary.LittleEndian.AppendUint32(end, o.sum.size))
	}
}

// A checksum is that of a text, as the trailer of gzip has it.
type checksum struct {
	crc  uint32
	size uint32 // modulo 2^32
}

// A part is the checksum of a text that comes after others.
type part struct {
	checksum
	shift uint32 // what the CRC of the others is multiplied by
}

func partOf(texts ...[]byte) (p part) {
	for _, text := range texts {
		p.crc = crc32.Update(p.crc, crc32.IEEETable, text)
		p.size += uint32(len(text))
	}
	p.shift = shiftBy(p.size)
	return p
}

// then is the checksum of a text with a part behind it.
func (s checksum) then(p part) checksum {
	return checksum{multiply(p.shift, s.crc) ^ p.crc, s.size + p.size}
}

// A CRC is a polynomial over the field of two elements, modulo that of IEEE 802.3. Its
// highest bit is the coefficient of 1.
const one = 1 << 31

// multiply multiplies two such polynomials.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1) // times x
	}
	return product
}

// shiftBy is x to the power of the bits in so many bytes.
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
