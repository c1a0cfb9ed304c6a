package record

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// log writes the record as one line of JSON, with the names that slog gives to what
// it writes, and at a level that tells operators whether to look. slog itself would
// take longer for the record than the cache for the answer.
func (r *Recorder) log(rec *Record, end *End) {
	if r.o.AccessLog == nil {
		return
	}
	level := slog.LevelInfo
	switch {
	case end.Status >= http.StatusInternalServerError && rec.Err != nil && rec.Expected:
		level = slog.LevelWarn
	case fault(rec, end) != "server":
	default:
		level = slog.LevelError
	}
	if !r.logs(end.Status, level) {
		return
	}
	var now [len(time.RFC3339Nano)]byte
	e := r.lines.Log().
		Bytes("time", rec.Start.Add(end.Took).AppendFormat(now[:0], time.RFC3339Nano)).
		Str("level", level.String()).Str("msg", "request").
		Str("method", end.Method).Str("route", rec.Route).Str("path", end.Path)
	end.rest(e)
	e.Int("status", end.Status).Int("bytes", end.Size).Float64("duration_ms", milliseconds(end.Took)).
		Str("outcome", rec.Outcome).Str("store", rec.Store).
		Int64("height", rec.Height).Int64("tip", rec.Tip).Float64("age_s", milliseconds(rec.Age)/1000)
	e.Str("request_id", rec.ID[0])
	var room [len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")]byte
	e.Bytes("client", end.Client.AppendTo(room[:0]))
	if rec.Tenant != "" {
		e.Str("tenant", rec.Tenant)
	}
	if rec.span != nil && rec.span.SpanContext().IsSampled() {
		e.Str("trace_id", rec.span.SpanContext().TraceID().String())
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

// Logs tells whether the line of a request that was answered without a failure is written. It leaves out
// the share that is not wanted.
func (r *Recorder) Logs(status int) bool {
	return r.o.AccessLog != nil && r.logs(status, slog.LevelInfo)
}

func (r *Recorder) logs(status int, level slog.Level) bool {
	return (!r.o.OnlyFailures || level >= slog.LevelError) && !r.skips(status) && r.o.Logger.Enabled(context.Background(), level)
}

// WriteLine writes a line that was made elsewhere.
func (r *Recorder) WriteLine(line []byte) { _, _ = r.o.AccessLog.Write(line) } // an error could not be logged either

// skips leaves out the share of the records that is not wanted.
func (r *Recorder) skips(status int) bool {
	return status < http.StatusBadRequest && r.o.SkipLog > 0 && rand.Float64() < r.o.SkipLog
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
