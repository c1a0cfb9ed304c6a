package record

import (
	"io"
	"sync"
	"time"
)

// Lines are buffered up to logBytes or logTime, so that one system call writes the records of many requests. A
// process that is killed may lose them.
const (
	logBytes = 32 << 10
	logTime  = 100 * time.Millisecond
)

// logHeld is the maximum number of bytes buffered during a write, about 10,000 lines. Beyond it, callers wait for the
// disk or for the reader of the log, until a write takes longer than logPatience: a reader that stands still must not stop the
// process. Then lines beyond logHeld are lost, as are lines whose write fails, for example on a full disk.
const (
	logHeld     = 4 << 20
	logPatience = 5 * time.Second
)

// Buffer writes lines later, in order. A slow writer delays callers only if they write more than 4 MiB
// meanwhile, or use [Buffer.Unbuffered], and for at most logPatience.
type Buffer struct {
	turn  chan struct{} // full while lines are being written
	to    io.Writer
	spare []byte // storage for the next lines; guarded by turn

	mu    sync.Mutex
	room  sync.Cond // signaled when lines is emptied, and when a caller need not wait any longer
	lines []byte
	due   bool      // a timer will write them
	full  bool      // a goroutine will write them
	began time.Time // start of the write in progress; zero without one
}

// NewBuffer returns a buffer for to. The caller must Close it.
func NewBuffer(to io.Writer) *Buffer {
	b := &Buffer{to: to, turn: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

// Write buffers a line. It returns no error, because an error could not be logged either.
func (b *Buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.lines) > 0 && len(b.lines)+len(line) > logHeld {
		if b.isStuck() {
			return len(line), nil
		}
		b.room.Wait()
	}
	b.lines = append(b.lines, line...)
	switch {
	case len(b.lines) >= logBytes && !b.full:
		b.full = true
		go b.flush() // Close waits for it
	case !b.due:
		b.due = true
		time.AfterFunc(logTime, b.flush)
	}
	return len(line), nil
}

// Close writes the buffered lines, unless a write takes too long. Lines after it are still written, within logTime.
func (b *Buffer) Close() error {
	b.flushUnlessStuck()
	return nil
}

// flushUnlessStuck is flush, but returns early if a write takes longer than logPatience.
func (b *Buffer) flushUnlessStuck() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isStuck() {
		return
	}
	flushed := false
	go func() {
		b.flush()
		b.wake(func() { flushed = true })
	}()
	for !flushed && !b.isStuck() {
		b.room.Wait()
	}
}

// flush writes the lines that are buffered when it is called.
func (b *Buffer) flush() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	lines := b.take()
	if len(lines) > 0 {
		b.wake(func() { b.began = time.Now() })
		impatient := time.AfterFunc(logPatience, func() { b.wake(func() {}) })
		_, _ = b.to.Write(lines)
		impatient.Stop()
		b.wake(func() { b.began = time.Time{} })
	}
	if b.spare = lines[:0]; cap(lines) > 2*logBytes { // it grew during a slow write
		b.spare = nil
	}
}

// wake changes the state that callers wait for.
func (b *Buffer) wake(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.room.Broadcast()
}

// isStuck reports whether a write takes longer than logPatience. The caller must hold mu.
func (b *Buffer) isStuck() bool { return !b.began.IsZero() && time.Since(b.began) >= logPatience }

// take removes and returns all lines. The caller must hold turn.
func (b *Buffer) take() (lines []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, b.lines = b.lines, b.spare
	b.due, b.full = false, false
	b.room.Broadcast()
	return lines
}

// Unbuffered returns a writer whose lines are written, after the buffered ones, before Write returns.
func (b *Buffer) Unbuffered() io.Writer { return unbuffered{b} }

type unbuffered struct{ *Buffer }

func (u unbuffered) Write(line []byte) (int, error) {
	n, err := u.Buffer.Write(line)
	u.flushUnlessStuck()
	return n, err
}
