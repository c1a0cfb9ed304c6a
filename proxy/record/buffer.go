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
// disk or for the reader of the log. Only lines whose write fails, as on a full disk, are lost.
const logHeld = 4 << 20

// Buffer writes lines later, in order. A slow writer delays callers only if they write more than 4 MiB
// meanwhile, or use [Buffer.Unbuffered].
type Buffer struct {
	turn  chan struct{} // full while lines are being written
	to    io.Writer
	spare []byte // storage for the next lines; guarded by turn

	mu    sync.Mutex
	room  sync.Cond // signaled when lines is emptied
	lines []byte
	due   bool // a timer will write them
	full  bool // a goroutine will write them
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

// Close writes the buffered lines. Lines after it are still written, within logTime.
func (b *Buffer) Close() error {
	b.flush()
	return nil
}

// flush writes the lines that are buffered when it is called.
func (b *Buffer) flush() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	lines := b.take()
	if len(lines) > 0 {
		_, _ = b.to.Write(lines)
	}
	if b.spare = lines[:0]; cap(lines) > 2*logBytes { // it grew during a slow write
		b.spare = nil
	}
}

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
	u.flush()
	return n, err
}
