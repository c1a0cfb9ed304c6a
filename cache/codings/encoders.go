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

// The levels. A body is encoded once and served many times, but the first one
// to ask waits for it, and what any block may change is encoded as often as
// there are blocks. A list of validators of 52 kB comes down
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

	quickLevel = 1 // of gzip and brotli, for bodies that may be sent once, and of gzip for long ones
)

// The Window is, in bytes, how far back encoders of brotli and zstd look. They hold a multiple of it
// while they are kept. Lists of delegations of 0.3 and 6 MB come to no more bytes with it than with the
// usual 4 and 8 MiB.
const (
	windowBits = 19
	Window     = 1 << windowBits
)

// maxAtOnce is how many bodies are encoded at once on a machine of many processors, and
// leastKept how many encoders there may be on one of few, so that each kind has its own.
// An encoder holds 1 to 4.5 MiB, which counts in no bound of memory but this one.
const (
	maxAtOnce = 8
	leastKept = 5
)

// Encoders make the encoded bodies, as many at once as there are processors, up to
// maxAtOnce. They are safe for concurrent use.
type Encoders struct {
	places chan struct{} // one for each encoder at work

	mu   sync.Mutex
	made int      // how many there are, at work and idle
	idle []worker // the one that was used last is the last
}

// A kind of encoders can stand in for each other.
type kind struct {
	coding Coding
	quick  bool // for bodies that may be sent once
}

// A worker encodes one body at a time, into its room.
type worker struct {
	kind
	encoder encoder
	room    []byte
}

// maxRoom is how many bytes of room a worker keeps.
const maxRoom = 256 << 10

// An encoder appends a body to what is in the room.
type encoder interface {
	appendTo(room, body []byte) []byte
}

// NewEncoders returns encoders that hold nothing yet.
func NewEncoders() *Encoders {
	return &Encoders{places: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxAtOnce))}
}

// Encode encodes a body in a coding other than [Identity], or quickly, for one that
// may be sent once. ok is false if no place is free, unless wait says to wait for one.
func (e *Encoders) Encode(coding Coding, body []byte, quick, wait bool) (encoded []byte, ok bool) {
	if !e.acquire(wait) {
		return nil, false
	}
	defer func() { <-e.places }()
	w := e.take(kind{coding, coding != Zstd && (quick || coding == Gzip && len(body) >= Long)})
	made := w.encoder.appendTo(w.room[:0], body)
	if cap(made) <= maxRoom {
		w.room = made
	}
	encoded = bytes.Clone(made) // without the room to spare
	e.put(w)
	return encoded, true
}

func (e *Encoders) acquire(wait bool) bool {
	if wait {
		e.places <- struct{}{}
		return true
	}
	select {
	case e.places <- struct{}{}:
		return true
	default:
		return false
	}
}

// take returns a worker that is idle, or a new one, for which the one that was used
// longest ago is dropped where there are enough.
func (e *Encoders) take(k kind) worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.idle, func(w worker) bool { return w.kind == k })
	if i >= 0 {
		found := e.idle[i]
		e.idle = slices.Delete(e.idle, i, i+1)
		return found
	}
	if len(e.idle) > 0 && e.made >= max(cap(e.places), leastKept) {
		e.idle = slices.Delete(e.idle, 0, 1)
		e.made--
	}
	e.made++
	return worker{kind: k, encoder: newEncoder(k)}
}

func (e *Encoders) put(w worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = append(e.idle, w)
}

func newEncoder(k kind) encoder {
	switch k.coding {
	case Gzip:
		w, _ := gzip.NewWriterLevel(io.Discard, levelOf(k, gzipLevel)) // a valid level
		return stream{w}
	case Brotli:
		return stream{brotli.NewWriterOptions(io.Discard, brotli.WriterOptions{Quality: levelOf(k, brotliLevel), LGWin: windowBits})}
	default:
		// With these options it cannot fail, and with EncodeAll alone it starts no goroutine.
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithWindowSize(Window),
			zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)) // a checksum takes a twelfth of the time; the connection has its own
		return whole{w}
	}
}

func levelOf(k kind, usual int) int {
	if k.quick {
		return quickLevel
	}
	return usual
}

// whole is an encoder of zstd.
type whole struct{ *zstd.Encoder }

func (w whole) appendTo(room, body []byte) []byte { return w.EncodeAll(body, room) }

// stream is an encoder of gzip or brotli.
type stream struct {
	w interface {
		io.WriteCloser
		Reset(w io.Writer)
	}
}

func (s stream) appendTo(room, body []byte) []byte {
	out := bytes.NewBuffer(room)
	s.w.Reset(out)
	_, _ = s.w.Write(body) // a buffer takes it all
	_ = s.w.Close()
	s.w.Reset(io.Discard)
	return out.Bytes()
}
