package record

import (
	"io"
	"sync"
	"time"
)

// Lines are kept until there are so many bytes of them, or for so long: one
// system call then writes the records of many requests. It is what a process
// that is killed may fail to write.
const (
	logBytes = 32 << 10
	logTime  = 100 * time.Millisecond
)

// Buffer writes lines later, but in their order.
type Buffer struct {
	to io.Writer

	mu    sync.Mutex
	lines []byte
	due   bool // a timer will write them
}

// NewBuffer returns a buffer for to. Close it.
func NewBuffer(to io.Writer) *Buffer { return &Buffer{to: to} }

// Write keeps a line for later. It cannot fail: an error could not be logged either.
func (b *Buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines)+len(line) > logBytes {
		b.flush()
	}
	if !b.due {
		b.due = true
		time.AfterFunc(logTime, b.onTime)
	}
	b.lines = append(b.lines, line...)
	return len(line), nil
}

func (b *Buffer) onTime() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = false
	b.flush()
}

// Close writes what is left. Later lines come late, but come.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
	return nil
}

func (b *Buffer) flush() {
	if len(b.lines) == 0 {
		return
	}
	_, _ = b.to.Write(b.lines)
	b.lines = b.lines[:0]
}

// Unbuffered gives a writer of lines that are written at once, after the lines that
// the buffer has.
func (b *Buffer) Unbuffered() io.Writer { return unbuffered{b} }

type unbuffered struct{ *Buffer }

func (u unbuffered) Write(line []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.flush()
	return u.to.Write(line)
}
