package record_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/record"
)

// A slowDisk writes nothing until writable is closed.
type slowDisk struct {
	writable chan struct{}
	text     bytes.Buffer
	largest  int
}

func (d *slowDisk) Write(p []byte) (int, error) {
	<-d.writable
	d.largest = max(d.largest, len(p))
	return d.text.Write(p)
}

// A slow disk delays requests only once the buffer is full, and no line is lost.
func TestSlowDiskDoesNotDelayRequests(t *testing.T) {
	const (
		lineBytes = 1000
		capacity  = (4 << 20) / lineBytes
		lines     = 3 * capacity
	)
	rest := strings.Repeat("x", lineBytes-7)
	line := func(n int) string { return fmt.Sprintf("%06d", n) + rest + "\n" }
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{writable: make(chan struct{})}
		b := record.NewBuffer(disk)
		written := 0
		go func() {
			for ; written < lines; written++ {
				_, _ = io.WriteString(b, line(written))
			}
		}()
		synctest.Wait()
		if written < capacity || written > 2*capacity {
			t.Errorf("lines accepted while the disk is blocked = %d, want %d to %d", written, capacity, 2*capacity)
		}
		close(disk.writable)
		synctest.Wait()
		if written != lines {
			t.Fatalf("lines accepted = %d, want %d", written, lines)
		}
		_, _ = io.WriteString(b.Unbuffered(), line(lines))
		n := 0
		for text := range strings.Lines(disk.text.String()) {
			if text != line(n) {
				t.Fatalf("line %d = %q, want %q", n, text, line(n))
			}
			n++
		}
		if n != lines+1 || disk.largest > 4<<20 {
			t.Errorf("%d lines written in writes of at most %d bytes, want %d in at most %d bytes", n, disk.largest, lines+1, 4<<20)
		}
	})
}

func TestWaitingLinesUseOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{writable: make(chan struct{})}
		b := record.NewBuffer(disk)
		before := runtime.NumGoroutine()
		for range 50 {
			_, _ = io.WriteString(b, "a line\n")
			time.Sleep(time.Second)
		}
		if more := runtime.NumGoroutine() - before; more > 2 {
			t.Errorf("goroutines that wait to write = %d, want at most 2", more)
		}
		close(disk.writable)
		synctest.Wait() // until then, Close would not wait for the disk
		if _ = b.Close(); disk.text.Len() != 50*len("a line\n") {
			t.Errorf("bytes written = %d, want %d", disk.text.Len(), 50*len("a line\n"))
		}
	})
}

func TestCloseWaitsForWritesInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{writable: make(chan struct{})}
		b := record.NewBuffer(disk)
		line := strings.Repeat("x", 40<<10) + "\n"
		_, _ = io.WriteString(b, line)
		closed := false
		go func() { _ = b.Close(); closed = true }()
		synctest.Wait() // the line is being written
		_, _ = io.WriteString(b, "the last\n")
		if closed {
			t.Error("Close returned before the lines were written")
		}
		close(disk.writable)
		synctest.Wait()
		if _ = b.Close(); !closed || disk.text.String() != line+"the last\n" {
			t.Errorf("Close returned = %t with %d bytes written, want true with %d", closed, disk.text.Len(), len(line+"the last\n"))
		}
	})
}

// Requests, events and the end of the process wait for a reader that stands still, but not for good.
func TestReaderThatStandsStillStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{writable: make(chan struct{})}
		b, line, start := record.NewBuffer(disk), strings.Repeat("x", 999)+"\n", time.Now()
		for range 20_000 {
			_, _ = io.WriteString(b, line)
		}
		for range 100 {
			_, _ = io.WriteString(b.Unbuffered(), "an event\n")
		}
		_ = b.Close()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("20,000 lines, 100 events and Close took %v, want at most 10 s", took)
		}
		close(disk.writable)
		time.Sleep(time.Second)
		_, _ = io.WriteString(b.Unbuffered(), "the last\n")
		if text := disk.text.String(); !strings.HasSuffix(text, "\nthe last\n") || len(text) < 4<<20 {
			t.Errorf("written once the reader continues: %d bytes, want the 4 MiB that were held and the last line", len(text))
		}
	})
}
