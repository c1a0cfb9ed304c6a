package main

import (
	"io"
	"log/slog"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/web"
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
	o := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// logs are the two kinds of records of a server, in one stream and in order:
// events, each written at once, and requests, which are buffered.
type logs struct {
	*slog.Logger
	requests io.Writer // takes lines of JSON
	buffer   *web.LogBuffer
}

func newLogs(w io.Writer, cfg config.Log, level slog.Leveler) logs {
	b := web.NewLogBuffer(w)
	l := logs{newLoggerAt(b.Unbuffered(), cfg, level), b, b}
	if cfg.Format == "text" {
		l.requests = textRecords{slog.NewTextHandler(b, nil)}
	}
	return l
}
