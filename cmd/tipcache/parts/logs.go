package parts

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/record"
)

// NewLogger returns the log of a command that serves no requests.
func NewLogger(w io.Writer, cfg config.Log) *slog.Logger {
	return slog.New(slog.NewJSONHandler(readable(w, cfg, IsTerminal(w)), &slog.HandlerOptions{Level: levelOf(cfg)}))
}

func levelOf(cfg config.Log) (level slog.Level) {
	_ = level.UnmarshalText([]byte(cfg.Level)) // validated
	return level
}

// readable returns a writer that turns lines of JSON into text if the configuration says so, or if the
// format is auto and w is a terminal.
func readable(w io.Writer, cfg config.Log, terminal bool) io.Writer {
	if cfg.Format == "json" || cfg.Format != "text" && !terminal {
		return w
	}
	console := zerolog.ConsoleWriter{
		Out: w, NoColor: !terminal, TimeFormat: "2006-01-02T15:04:05.000Z07:00",
		PartsOrder: []string{slog.TimeKey, slog.LevelKey, slog.MessageKey}, FieldsExclude: []string{slog.MessageKey},
	}
	if terminal {
		console.TimeFormat = time.TimeOnly
	}
	return console
}

// Logs writes the two kinds of records of a server to one stream, in order: events are written at
// once, requests are buffered.
type Logs struct {
	*slog.Logger
	Requests io.Writer // for lines of JSON
	level    *slog.LevelVar
	buffer   *record.Buffer
}

// NewLogs returns logs that write both kinds to w. The caller must Close them.
func NewLogs(w io.Writer, cfg config.Log) Logs {
	b, terminal, level := record.NewBuffer(w), IsTerminal(w), new(slog.LevelVar)
	level.Set(levelOf(cfg))
	events := slog.NewJSONHandler(readable(b.Unbuffered(), cfg, terminal), &slog.HandlerOptions{Level: level})
	return Logs{slog.New(events), readable(b, cfg, terminal), level, b}
}

// SetLevel changes the level.
func (l Logs) SetLevel(cfg config.Log) { l.level.Set(levelOf(cfg)) }

// ServerLog returns the ErrorLog of an http.Server. It logs panics as errors, failures to accept connections as warnings, at
// most one per minute, and the failures that clients cause, such as failed handshakes, at debug level.
func ServerLog(l *slog.Logger) *log.Logger {
	return log.New(&serverLog{Logger: l, accepting: rate.Sometimes{Interval: time.Minute}}, "", 0)
}

type serverLog struct {
	*slog.Logger
	accepting rate.Sometimes // limits the warnings: the server tries again in at most a second
}

func (l *serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	switch {
	case bytes.Contains(line, []byte(": panic")):
		level = slog.LevelError
	case bytes.HasPrefix(line, []byte("http: Accept error")): // such as "too many open files"
		l.accepting.Do(func() { level = slog.LevelWarn })
	}
	l.Log(context.Background(), level, "http server", "error", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	out, ok := w.(*os.File)
	return ok && term.IsTerminal(int(out.Fd()))
}

// Close writes the buffered records.
func (l Logs) Close() error { return l.buffer.Close() }
