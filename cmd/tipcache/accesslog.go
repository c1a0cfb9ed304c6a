package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidwall/gjson"
)

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
