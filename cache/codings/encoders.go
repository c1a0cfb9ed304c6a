package codings

import (
	"bytes"
	"io"
	"runtime"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// The levels. A body is encoded once and served many times, but the first one
// to ask waits for it, and what any block may change is encoded as often as
// there are blocks. A list of validators of 52 kB comes down
//
//	gzip 6    to 7.9 kB in 0.1 ms; 9 saves 0.3 kB and takes ten times as long
//	br 5      to 7.1 kB in 0.5 ms; 6 saves nothing, 9 takes three times as long
//	zstd      to 7.4 kB in 0.07 ms at its default level; the next saves nothing
const (
	gzipLevel   = 6
	brotliLevel = 5
	zstdLevel   = zstd.SpeedDefault

	quickLevel = 1 // of gzip and brotli, for bodies that may be sent once
)

// The Window is, in bytes, how far back encoders of brotli and zstd look. They hold a multiple of it
// while they are pooled, which counts in no bound of memory. Lists of delegations of 0.3 and
// 6 MB come to no more bytes with it than with the usual 4 and 8 MiB.
const (
	windowBits = 19
	Window     = 1 << windowBits
)

// Encoders make the encoded bodies, as many at once as there are processors:
// each holds some megabytes. They are safe for concurrent use.
type Encoders struct {
	places chan struct{} // one for each encoder at work
	kept   streamPools
	quick  streamPools // for bodies that may be sent once
	zstd   *zstd.Encoder
}

// streamPools have writers of one level each.
type streamPools struct {
	gzip, brotli sync.Pool // of streamEncoder
}

func (p *streamPools) init(gzipLevel, brotliLevel int) {
	p.gzip.New = func() any {
		w, _ := gzip.NewWriterLevel(io.Discard, gzipLevel) // a valid level
		return w
	}
	p.brotli.New = func() any {
		return brotli.NewWriterOptions(io.Discard, brotli.WriterOptions{Quality: brotliLevel, LGWin: windowBits})
	}
}

// streamEncoder is what the writers of gzip and brotli have in common.
type streamEncoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// NewEncoders returns encoders that hold nothing yet.
func NewEncoders() *Encoders {
	e := &Encoders{places: make(chan struct{}, runtime.GOMAXPROCS(0))}
	e.kept.init(gzipLevel, brotliLevel)
	e.quick.init(quickLevel, quickLevel)
	// With these options it cannot fail, and with EncodeAll alone it starts no goroutine.
	e.zstd, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithWindowSize(Window),
		zstd.WithEncoderConcurrency(cap(e.places)), zstd.WithLowerEncoderMem(true))
	return e
}

// Encode encodes a body in a coding other than [Identity], or quickly, for one that
// may be sent once. ok is false if no place is free, unless wait says to wait for one.
func (e *Encoders) Encode(coding Coding, body []byte, quick, wait bool) (encoded []byte, ok bool) {
	if !e.acquire(wait) {
		return nil, false
	}
	defer func() { <-e.places }()
	pools := &e.kept
	if quick {
		pools = &e.quick
	}
	switch coding {
	case Gzip:
		return stream(&pools.gzip, body), true
	case Brotli:
		return stream(&pools.brotli, body), true
	default:
		return bytes.Clone(e.zstd.EncodeAll(body, nil)), true // its own has room for the plain body
	}
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

// stream encodes with a writer of the pool.
func stream(pool *sync.Pool, body []byte) []byte {
	w := pool.Get().(streamEncoder)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(body) // a buffer takes it all
	_ = w.Close()
	w.Reset(io.Discard)
	pool.Put(w)
	return bytes.Clone(out.Bytes()) // without the buffer's spare room
}
