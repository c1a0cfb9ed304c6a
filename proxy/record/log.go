package record

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// An accessLog has the records of requests.
type accessLog struct {
	o     Options
	lines zerolog.Logger
}

func newAccessLog(o Options) accessLog {
	return accessLog{o, zerolog.New(o.AccessLog)}
}

// write adds the request's one record, a line of JSON with the names that
// slog gives to what it writes; at a level that tells operators whether to look.
// slog itself would take longer for the record than the cache for the answer.
func (l *accessLog) write(rec *Record, end *End) {
	if l.o.AccessLog == nil {
		return
	}
	level := slog.LevelInfo
	switch {
	case end.Status < http.StatusInternalServerError:
	case rec.Err != nil && rec.Expected:
		level = slog.LevelWarn
	default:
		level = slog.LevelError
	}
	if l.o.OnlyFailures && level < slog.LevelError || l.skips(end.Status) || !l.o.Logger.Enabled(context.Background(), level) {
		return
	}
	var now [len(time.RFC3339Nano)]byte
	e := l.lines.Log().
		Bytes("time", rec.Start.Add(end.Took).AppendFormat(now[:0], time.RFC3339Nano)).
		Str("level", level.String()).Str("msg", "request").
		Str("method", end.Method).Str("route", rec.Route).Str("path", end.Path)
	end.rest(e)
	e.Int("status", end.Status).Int("bytes", end.Size).Float64("duration_ms", milliseconds(end.Took)).
		Str("outcome", rec.Outcome).Str("store", rec.Store).
		Int64("height", rec.Height).Int64("tip", rec.Tip).Float64("age_s", milliseconds(rec.Age)/1000)
	if end.ID != nil {
		e.Bytes("request_id", end.ID)
	} else {
		e.Str("request_id", rec.ID[0])
	}
	var room [len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")]byte
	e.Bytes("client", end.Client.AppendTo(room[:0]))
	if rec.Tenant != "" {
		e.Str("tenant", rec.Tenant)
	}
	if id := rec.traceID(); id != "" {
		e.Str("trace_id", id)
	}
	if rec.Err != nil {
		e.Str("error", rec.Err.Error())
	}
	e.Send()
}

// rest adds what else the client sent.
func (a *Asked) rest(e *zerolog.Event) {
	if a.Query != "" {
		e.Str("query", a.Query)
	}
	if a.Agent != "" {
		e.Str("user_agent", a.Agent)
	}
}

// skips leaves out the share of the records that is not wanted.
func (l *accessLog) skips(status int) bool {
	return status < http.StatusBadRequest && l.o.SkipLog > 0 && rand.Float64() < l.o.SkipLog
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// traceID is the trace a request is collected in, "" for none.
func (rec *Record) traceID() string {
	if rec.span == nil || !rec.span.SpanContext().IsSampled() {
		return ""
	}
	return rec.span.SpanContext().TraceID().String()
}
