package web

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// An accessLog has the records of requests.
type accessLog struct {
	out          io.Writer // nil: none
	lines        zerolog.Logger
	logger       *slog.Logger // whose level counts
	onlyFailures bool
	skip         float64
}

func newAccessLog(o Options) accessLog {
	return accessLog{o.AccessLog, zerolog.New(o.AccessLog), o.Logger, o.OnlyFailures, o.SkipLog}
}

// write adds the request's one record, a line of JSON with the names that
// slog gives to what it writes; at a level that tells operators whether to look.
// slog itself would take longer for the record than the cache for the answer.
func (l *accessLog) write(rec *Record, end *ended) {
	if l.out == nil {
		return
	}
	level := slog.LevelInfo
	switch {
	case end.status < http.StatusInternalServerError:
	case rec.err != nil && FailureOf(rec.err).Expected:
		level = slog.LevelWarn
	default:
		level = slog.LevelError
	}
	if l.onlyFailures && level < slog.LevelError || l.skips(end.status) || !l.logger.Enabled(context.Background(), level) {
		return
	}
	var now [len(time.RFC3339Nano)]byte
	e := l.lines.Log().
		Bytes("time", rec.Start.Add(end.took).AppendFormat(now[:0], time.RFC3339Nano)).
		Str("level", level.String()).Str("msg", "request").
		Str("method", end.method).Str("route", rec.route).Str("path", end.path)
	end.rest(e)
	e.Int("status", end.status).Int("bytes", end.size).Float64("duration_ms", milliseconds(end.took)).
		Str("outcome", rec.outcome).Str("store", rec.store).
		Int64("height", rec.height).Int64("tip", rec.Tip).Float64("age_s", milliseconds(rec.age)/1000)
	if end.id != nil {
		e.Bytes("request_id", end.id)
	} else {
		e.Str("request_id", rec.id[0])
	}
	var room [len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")]byte
	e.Bytes("client", end.client.AppendTo(room[:0]))
	if rec.tenant != "" {
		e.Str("tenant", rec.tenant)
	}
	if id := rec.traceID(); id != "" {
		e.Str("trace_id", id)
	}
	if rec.err != nil {
		e.Str("error", rec.err.Error())
	}
	e.Send()
}

// rest adds what else the client sent.
func (a *asked) rest(e *zerolog.Event) {
	if a.query != "" {
		e.Str("query", a.query)
	}
	if a.agent != "" {
		e.Str("user_agent", a.agent)
	}
}

// skips leaves out the share of the records that is not wanted.
func (l *accessLog) skips(status int) bool {
	return status < http.StatusBadRequest && l.skip > 0 && rand.Float64() < l.skip
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
