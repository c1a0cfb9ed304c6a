package account

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A chunk is a part of a long body. Chunks are reused, so that a refused body leaves no garbage.
type chunk [16 << 10]byte

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// joining is held while chunks are copied into one piece, so that only one body is in memory twice.
var joining sync.Mutex

// ReadAll reads r to its end. The caller must limit r to largest bytes. It reserves memory as the bytes arrive, so a client
// that announces a long body and sends nothing uses almost no memory. The error is the reader's, ErrShare or ErrFull.
func (h *Hold) ReadAll(r io.Reader, largest int64) ([]byte, error) {
	b := body{hold: h, left: int(largest) + 1} // one more byte, to detect the end
	return b.readAll(r)
}

// maxSized is the maximum announced size, in bytes, for which memory is reserved in advance. A sender may announce a long
// body and never send it.
const maxSized = 1 << 20

// Read reads r to its end. It reserves memory while it reads. size is the announced size in bytes, 0 or less if it is
// unknown. The error is the reader's, ErrTooLarge beyond largest bytes, or ErrFull: an *Overflow if r was read in part.
func (p *Part) Read(r io.Reader, size, largest int64) ([]byte, error) {
	all := struct { // in one piece of memory
		body
		Hold
		io.LimitedReader
	}{body{left: int(largest) + 1, chunked: true}, Hold{part: p, exempt: true}, io.LimitedReader{R: r, N: largest + 1}}
	b := &all.body
	b.hold = &all.Hold
	defer b.hold.Close()
	if size > 0 && size <= min(largest, maxSized) {
		if err := b.take(int(size)); err != nil {
			return nil, err
		}
		b.first = make([]byte, 0, size)
	}
	whole, err := b.readAll(&all.LimitedReader)
	if err == nil && int64(len(whole)) > largest {
		return nil, ErrTooLarge
	}
	if n := largest + 1 - all.N; errors.Is(err, ErrFull) && n > 0 {
		err = &Overflow{n, err}
	}
	return whole, err
}

// An Overflow is the error of a body that did not fit into the free memory.
type Overflow struct {
	Bytes int64 // read before that
	err   error
}

// Error implements error.
func (o *Overflow) Error() string { return fmt.Sprintf("%v after %d bytes", o.err, o.Bytes) }

// Unwrap returns ErrFull for errors.Is.
func (o *Overflow) Unwrap() error { return o.err }

func (b *body) readAll(r io.Reader) ([]byte, error) {
	defer b.free()
	for {
		space, err := b.space()
		if err != nil {
			return nil, err
		}
		n, err := r.Read(space)
		b.read(n)
		switch {
		case errors.Is(err, io.EOF):
			return b.join(), nil
		case err != nil:
			return nil, err
		}
	}
}

// A body is a body being read.
type body struct {
	hold    *Hold
	left    int      // bytes that may still be reserved
	chunked bool     // chunks are used from the first byte, or after first if the size is known
	first   []byte   // beginning of the body, if not chunked or if the size is known
	rest    []*chunk // remainder of the body
	used    int      // number of bytes in the last chunk
}

// space returns a buffer for the next bytes, and reserves memory for it.
func (b *body) space() ([]byte, error) {
	const least = 512 // fits a call of JSON-RPC
	switch {
	case len(b.first) < cap(b.first):
		return b.first[len(b.first):cap(b.first)], nil
	case !b.chunked && cap(b.first) < len(chunk{}):
		grown := min(max(least, 2*cap(b.first)), cap(b.first)+b.left)
		if err := b.take(grown - cap(b.first)); err != nil {
			return nil, err
		}
		b.first = append(make([]byte, 0, grown), b.first...)
		return b.first[len(b.first):cap(b.first)], nil
	case len(b.rest) == 0 || b.used == len(chunk{}):
		if err := b.take(min(len(chunk{}), b.left)); err != nil {
			return nil, err
		}
		b.rest, b.used = append(b.rest, chunks.Get().(*chunk)), 0 //nolint:forcetypeassert // the pool has no others
	}
	return b.rest[len(b.rest)-1][b.used:], nil
}

func (b *body) take(n int) error {
	if err := b.hold.Take(n); err != nil {
		return err
	}
	b.left -= n
	return nil
}

// read records that n bytes were read into the buffer of space.
func (b *body) read(n int) {
	if len(b.rest) == 0 {
		b.first = b.first[:len(b.first)+n]
	} else {
		b.used += n
	}
}

func (b *body) join() []byte {
	if len(b.rest) == 0 {
		return b.first
	}
	if len(b.rest) > 1 {
		joining.Lock()
		defer joining.Unlock()
	}
	var room [8][]byte
	parts := append(room[:0], b.first)
	for _, c := range b.rest {
		parts = append(parts, c[:])
	}
	last := len(parts) - 1
	parts[last] = parts[last][:b.used]
	whole := bytes.Join(parts, nil) // unlike make, it does not clear the memory first
	b.free()
	return whole
}

func (b *body) free() {
	for _, c := range b.rest {
		chunks.Put(c)
	}
	b.rest = nil
}
