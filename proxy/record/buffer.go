package record

import (
	"io"
	"sync"
	"time"
)

// Lines are buffered up to this size in bytes, or for this time: one
// system call then writes the records of many requests. It is what a process
// that is killed may fail to write, if what it writes to keeps up.
const (
	logBytes = 32 << 10
	logTime  = 100 * time.Millisecond
)

// logHeld is how many bytes are kept while others are being written: 10,000 lines or so. No line is
// dropped. Where the disk, or whatever reads the log, is slower than that, those who write wait for it.
const logHeld = 4 << 20

// Buffer writes lines later, but in their order. A slow writer below holds up none that
// writes lines, unless more than 4 MiB of them come meanwhile, or they are [Buffer.Unbuffered].
type Buffer struct {
	turn  chan struct{} // has one while lines are being written
	to    io.Writer
	spare []byte // room for the next lines

	mu    sync.Mutex
	room  sync.Cond // the lines were taken
	lines []byte
	due   bool // a timer writes them, or waits for its turn to
	full  bool // a goroutine does
}

// NewBuffer returns a buffer for to. Close it.
func NewBuffer(to io.Writer) *Buffer {
	b := &Buffer{to: to, turn: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

// Write keeps a line for later. It cannot fail: an error could not be logged either.
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
		go b.flush() // which Close waits for, by its turn
	case !b.due:
		b.due = true
		time.AfterFunc(logTime, b.flush)
	}
	return len(line), nil
}

// Close writes what is left. Later lines come late, but come.
func (b *Buffer) Close() error {
	b.flush()
	return nil
}

// flush returns once the lines are written that there are when it is called.
func (b *Buffer) flush() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	lines := b.take()
	if len(lines) > 0 {
		_, _ = b.to.Write(lines)
	}
	if b.spare = lines[:0]; cap(lines) > 2*logBytes { // of a time when that was slow
		b.spare = nil
	}
}

// take returns all lines. The caller must hold the turn.
func (b *Buffer) take() (lines []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, b.lines = b.lines, b.spare
	b.due, b.full = false, false
	b.room.Broadcast()
	return lines
}

// Unbuffered gives a writer of lines that are written when it returns, after the lines that
// the buffer has.
func (b *Buffer) Unbuffered() io.Writer { return unbuffered{b} }

type unbuffered struct{ *Buffer }

func (u unbuffered) Write(line []byte) (int, error) {
	n, err := u.Buffer.Write(line)
	u.flush()
	return n, err
}
