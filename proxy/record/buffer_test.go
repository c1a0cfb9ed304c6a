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

// A slowDisk takes nothing until it is told to.
type slowDisk struct {
	goOn    chan struct{}
	text    bytes.Buffer
	largest int
}

func (d *slowDisk) Write(p []byte) (int, error) {
	<-d.goOn
	d.largest = max(d.largest, len(p))
	return d.text.Write(p)
}

// A disk that is slow delays no request until the room for lines is full. Then it delays them, and no
// line is lost.
func TestSlowDiskDoesNotDelayRequests(t *testing.T) {
	const (
		lineBytes = 1000
		room      = (4 << 20) / lineBytes
		most      = 3 * room
	)
	rest := strings.Repeat("x", lineBytes-7)
	line := func(n int) string { return fmt.Sprintf("%06d", n) + rest + "\n" }
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{goOn: make(chan struct{})}
		b := record.NewBuffer(disk)
		written := 0
		go func() {
			for ; written < most; written++ {
				_, _ = io.WriteString(b, line(written))
			}
		}()
		synctest.Wait()
		if written < room || written > 2*room {
			t.Errorf("%d lines were taken while nothing could be written, want %d and what is being written", written, room)
		}
		close(disk.goOn)
		synctest.Wait()
		if written != most {
			t.Fatalf("%d lines were taken of %d", written, most)
		}
		_, _ = io.WriteString(b.Unbuffered(), line(most))
		n := 0
		for text := range strings.Lines(disk.text.String()) {
			if text != line(n) {
				t.Fatalf("line %d is %q", n, text)
			}
			n++
		}
		if n != most+1 || disk.largest > 4<<20 {
			t.Errorf("%d lines were written of %d, %d bytes at most at once", n, most+1, disk.largest)
		}
	})
}

func TestWaitingLinesUseOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{goOn: make(chan struct{})}
		b := record.NewBuffer(disk)
		before := runtime.NumGoroutine()
		for range 50 {
			_, _ = io.WriteString(b, "a line\n")
			time.Sleep(time.Second)
		}
		if more := runtime.NumGoroutine() - before; more > 2 {
			t.Errorf("%d goroutines wait to write", more)
		}
		close(disk.goOn)
		if _ = b.Close(); disk.text.Len() != 50*len("a line\n") {
			t.Errorf("%d bytes were written", disk.text.Len())
		}
	})
}

func TestCloseWaitsForWritesInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{goOn: make(chan struct{})}
		b := record.NewBuffer(disk)
		line := strings.Repeat("x", 40<<10) + "\n"
		_, _ = io.WriteString(b, line)
		closed := false
		go func() { _ = b.Close(); closed = true }()
		synctest.Wait() // which writes that
		_, _ = io.WriteString(b, "the last\n")
		if closed {
			t.Error("Close returned before the lines were written")
		}
		close(disk.goOn)
		synctest.Wait()
		if _ = b.Close(); !closed || disk.text.String() != line+"the last\n" {
			t.Errorf("closed: %t; %d bytes were written", closed, disk.text.Len())
		}
	})
}
