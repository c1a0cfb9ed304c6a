package proxy

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// logAccess writes the request's one record, a line of JSON with the names that
// slog gives to what it writes; at a level that tells operators whether to look.
// slog itself would take longer for the record than the cache for the answer.
func (s *Server) logAccess(c *gin.Context, rec *record, took time.Duration) {
	level, status := slog.LevelInfo, c.Writer.Status()
	if status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if s.o.OnlyFailures && level < slog.LevelError || s.skips(status) || !s.log.Enabled(c.Request.Context(), level) {
		return
	}
	var now [len(time.RFC3339Nano)]byte
	e := s.access.Log().
		Bytes("time", rec.start.Add(took).AppendFormat(now[:0], time.RFC3339Nano)).
		Str("level", level.String()).Str("msg", "request").
		Str("method", c.Request.Method).Str("route", rec.route).Str("path", c.Request.URL.Path).
		Int("status", status).Int("bytes", max(0, c.Writer.Size())).Float64("duration_ms", milliseconds(took)).
		Str("outcome", rec.outcome).Str("store", rec.store).
		Int64("height", rec.height).Int64("tip", rec.tip).Float64("age_s", milliseconds(rec.age)/1000).Str("request_id", rec.id[0])
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

// skips leaves out the share of the records that is not wanted.
func (s *Server) skips(status int) bool {
	return status < http.StatusBadRequest && s.o.SkipLog > 0 && rand.Float64() < s.o.SkipLog
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
