package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Lines are gathered until there are so many bytes of them, or for so long: one
// system call then writes the records of many requests. It is what a process
// that is killed may fail to write.
const (
	gatherBytes = 32 << 10
	gatherTime  = 100 * time.Millisecond
)

// gathered writes lines later, but in their order.
type gathered struct {
	to io.Writer

	mu    sync.Mutex
	lines []byte
	due   bool // a timer will write them
}

// Write keeps a line for later. It cannot fail: nobody could be told.
func (g *gathered) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lines)+len(line) > gatherBytes {
		g.write()
	}
	if !g.due {
		g.due = true
		time.AfterFunc(gatherTime, g.onTime)
	}
	g.lines = append(g.lines, line...)
	return len(line), nil
}

func (g *gathered) onTime() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = false
	g.write()
}

// close writes what is left. Later lines come late, but come.
func (g *gathered) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write()
	return nil
}

func (g *gathered) write() {
	if len(g.lines) == 0 {
		return
	}
	_, _ = g.to.Write(g.lines)
	g.lines = g.lines[:0]
}

// atOnce writes a line, after those gathered before.
type atOnce struct{ *gathered }

func (a atOnce) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write()
	return a.to.Write(line)
}

// textRecords turns the records of requests from JSON into text, for people to
// read: they do not read so many that speed counts.
type textRecords struct{ text slog.Handler }

func (t textRecords) Write(line []byte) (int, error) {
	var (
		at    time.Time
		level slog.Level
		msg   string
		attrs []slog.Attr
	)
	gjson.ParseBytes(line).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case slog.TimeKey:
			at = value.Time()
		case slog.LevelKey:
			_ = level.UnmarshalText([]byte(value.Str)) // written by slog's own
		case slog.MessageKey:
			msg = value.Str
		default:
			attrs = append(attrs, slog.String(name.Str, value.String()))
		}
		return true
	})
	record := slog.NewRecord(at, level, msg, 0)
	record.AddAttrs(attrs...)
	return len(line), t.text.Handle(context.Background(), record)
}
