package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A logLine is what the records of one request, repeated, have in common: the
// members that stand before those that vary, and behind them.
type logLine struct{ before, after []byte }

// lineOf has the library render them, once.
func (l *accessLog) lineOf(r *repetition) (line logLine) {
	line.before = members(func(e *zerolog.Event) {
		e.Str("level", slog.LevelInfo.String()).Str("msg", "request").Str("method", r.asked.method).Str("route", r.route).Str("path", r.asked.path)
		r.asked.rest(e)
	})
	if r.key.Name != "" {
		line.after = members(func(e *zerolog.Event) { e.Str("tenant", r.key.Name) })
	}
	return line
}

func members(add func(e *zerolog.Event)) []byte {
	var b bytes.Buffer
	log := zerolog.New(&b)
	e := log.Log()
	add(e)
	e.Send()
	return append(bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte("{")), []byte("}\n")), ',')
}

// writeAgain adds the record that write would add, in less time.
func (l *accessLog) writeAgain(r *repetition, n *rehearsal, end *ended) {
	if n.status >= http.StatusInternalServerError {
		l.write(&n.rec, end)
		return
	}
	if l.out == nil || l.onlyFailures || l.skips(n.status) || !l.logger.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	b := append(appendTime(append(n.line[:0], `{"time":"`...), n.rec.Start.Add(end.took)), `",`...)
	b = append(b, r.line.before...)
	b = strconv.AppendInt(append(b, `"status":`...), int64(n.status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(n.size), 10)
	b = appendDecimal(append(b, `,"duration_ms":`...), end.took.Microseconds(), 1000)
	b = append(append(append(b, `,"outcome":"`...), n.rec.outcome...), `","store":"`...)
	b = append(append(b, n.rec.store...), `","height":`...)
	b = strconv.AppendInt(append(strconv.AppendInt(b, n.rec.height, 10), `,"tip":`...), n.rec.Tip, 10)
	b = appendDecimal(append(b, `,"age_s":`...), n.rec.age.Microseconds(), 1_000_000)
	b = append(append(append(b, `,"request_id":"`...), n.id...), `","client":"`...)
	b = append(end.client.AppendTo(b), `",`...)
	b = append(b, r.line.after...)
	b[len(b)-1] = '}' // in place of the last comma
	b = append(b, '\n')
	n.line = b
	_, _ = l.out.Write(n.line) // nobody could be told
}

// appendDecimal appends a fraction whose denominator is a power of ten, as
// strconv would append the number.
func appendDecimal(b []byte, numerator, denominator int64) []byte {
	b = strconv.AppendInt(b, numerator/denominator, 10)
	rest := numerator % denominator
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for rest > 0 {
		rest *= 10
		b = append(b, byte('0'+rest/denominator))
		rest %= denominator
	}
	return b
}

// A secondText is a second as RFC 3339 has it, and its zone.
type secondText struct {
	second     int64
	text, zone string
}

var lastSecond atomic.Pointer[secondText]

// appendTime appends a time in time.RFC3339Nano.
func appendTime(b []byte, t time.Time) []byte {
	s := lastSecond.Load()
	if second := t.Unix(); s == nil || s.second != second {
		s = &secondText{second, t.Format("2006-01-02T15:04:05"), t.Format("Z07:00")}
		lastSecond.Store(s)
	}
	b = append(b, s.text...)
	if nanos := int64(t.Nanosecond()); nanos > 0 {
		fraction := appendDecimal(b, nanos, int64(time.Second))
		b = append(b, fraction[len(b)+1:]...) // without the zero before the point
	}
	return append(b, s.zone...)
}
