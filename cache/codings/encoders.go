package codings

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression levels. A body is encoded once and served many times, but the first caller waits for it, and live data is
// encoded again at every block. Measured for a list of validators of 52 kB:
//
//	gzip 6    to 7.9 kB in 0.1 ms; 9 saves 0.3 kB and takes ten times as long; 1 takes half as long
//	          for a tenth more, and of 51 or 515 kB of random numbers a third for 7 % less
//	br 5      to 7.1 kB in 0.5 ms; 6 saves nothing, 9 takes three times as long
//	zstd      to 7.4 kB in 0.04 ms at its fastest level; the next takes twice as long and saves nothing,
//	          and of 51 kB of random numbers four times as long for 13.4 kB in place of 12.6
const (
	gzipLevel   = 6
	brotliLevel = 5
	zstdLevel   = zstd.SpeedFastest

	quickLevel = 1 // gzip and brotli for bodies that may be sent only once, and gzip for long bodies
)

// Window is the window of the brotli and zstd encoders, in bytes. Idle encoders hold a multiple of it. Lists of
// delegations of 0.3 and 6 MB become no larger than with the usual windows of 4 and 8 MiB.
const (
	windowBits = 19
	Window     = 1 << windowBits
)

// maxConcurrent is the maximum number of concurrent encodings. minKept is the number of encoders kept on machines with
// fewer processors, one for each kind. An encoder holds 1 to 4.5 MiB, which no other memory limit counts.
const (
	maxConcurrent = 8
	minKept       = 5
)

// Encoders encode as many bodies at a time as there are processors, up to maxConcurrent. They are safe for concurrent use.
type Encoders struct {
	tokens chan struct{} // holds one token for each encoder in use

	mu   sync.Mutex
	made int      // number of encoders, in use and idle
	idle []worker // the most recently used is last
}

// kind identifies interchangeable encoders.
type kind struct {
	coding Coding
	quick  bool // for bodies that may be sent only once
}

// worker encodes one body at a time into its buffer.
type worker struct {
	kind
	appendTo appender
	buffer   []byte
}

// An appender appends the encoded body to a buffer.
type appender func(buffer, body []byte) []byte

// maxBuffer is the maximum buffer that a worker keeps, in bytes.
const maxBuffer = 256 << 10

// NewEncoders returns Encoders without any encoder yet.
func NewEncoders() *Encoders {
	return &Encoders{tokens: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxConcurrent))}
}

// Encode encodes a body in a coding other than [Identity]; quick is for a body that may be sent only once. It
// returns false if all encoders are in use, unless wait is set.
func (e *Encoders) Encode(coding Coding, body []byte, quick, wait bool) (encoded []byte, ok bool) {
	select {
	case e.tokens <- struct{}{}:
	default:
		if !wait {
			return nil, false
		}
		e.tokens <- struct{}{}
	}
	defer func() { <-e.tokens }()
	w := e.take(kind{coding, coding != Zstd && (quick || coding == Gzip && len(body) >= Long)})
	made := w.appendTo(w.buffer[:0], body)
	if cap(made) <= maxBuffer {
		w.buffer = made
	}
	encoded = bytes.Clone(made) // without spare capacity
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = append(e.idle, w)
	return encoded, true
}

// take returns an idle worker or a new one. If there are enough workers, the least recently used one is dropped.
func (e *Encoders) take(k kind) worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.idle, func(w worker) bool { return w.kind == k })
	if i >= 0 {
		found := e.idle[i]
		e.idle = slices.Delete(e.idle, i, i+1)
		return found
	}
	if len(e.idle) > 0 && e.made >= max(cap(e.tokens), minKept) {
		e.idle = slices.Delete(e.idle, 0, 1)
		e.made--
	}
	e.made++
	return worker{kind: k, appendTo: newEncoder(k)}
}

func newEncoder(k kind) appender {
	switch k.coding {
	case Gzip:
		w, _ := gzip.NewWriterLevel(io.Discard, levelOf(k, gzipLevel)) // a valid level
		return streamed(w)
	case Brotli:
		return streamed(brotli.NewWriterOptions(io.Discard, brotli.WriterOptions{Quality: levelOf(k, brotliLevel), LGWin: windowBits}))
	default:
		// With these options it cannot fail, and with EncodeAll alone it starts no goroutine.
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithWindowSize(Window),
			zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)) // a checksum would take a twelfth of the time
		return func(buffer, body []byte) []byte { return w.EncodeAll(body, buffer) }
	}
}

func levelOf(k kind, usual int) int {
	if k.quick {
		return quickLevel
	}
	return usual
}

// streamed returns the appender of a gzip or brotli writer.
func streamed(w interface {
	io.WriteCloser
	Reset(w io.Writer)
}) appender {
	return func(buffer, body []byte) []byte {
		out := bytes.NewBuffer(buffer)
		w.Reset(out)
		_, _ = w.Write(body) // a buffer never fails
		_ = w.Close()
		w.Reset(io.Discard)
		return out.Bytes()
	}
}
