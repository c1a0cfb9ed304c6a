package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/record"
)

func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	return newLoggerAt(w, cfg, levelOf(cfg))
}

// levelOf is the level configured; it may change while serving.
func levelOf(cfg config.Log) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // validated
	return level
}

func newLoggerAt(w io.Writer, cfg config.Log, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(readable(w, cfg, isTerminal(w)), &slog.HandlerOptions{Level: level}))
}

// readable turns lines of JSON into text where that is wanted: people do not read
// so many that speed counts.
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

// logs are the two kinds of records of a server, in one stream and in order:
// events, each written at once, and requests, which are buffered.
type logs struct {
	*slog.Logger
	requests io.Writer // takes lines of JSON
	buffer   *record.Buffer
}

func newLogs(w io.Writer, cfg config.Log, level slog.Leveler) logs {
	b, terminal := record.NewBuffer(w), isTerminal(w)
	events := slog.NewJSONHandler(readable(b.Unbuffered(), cfg, terminal), &slog.HandlerOptions{Level: level})
	return logs{slog.New(events), readable(b, cfg, terminal), b}
}
