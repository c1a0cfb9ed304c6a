package record

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

// A Template is what the records of one request, repeated, have in common: the
// members that stand before those that vary, and behind them.
type Template struct {
	before, after []byte
	counted       atomic.Pointer[counted] // what the last record was counted by
}

// counted are the series of an ending.
type counted struct {
	by  ending
	all series
}

// NewTemplate has the library render them, once.
func NewTemplate(route, tenant string, asked *Asked) *Template {
	t := &Template{}
	t.before = members(func(e *zerolog.Event) {
		e.Str("level", slog.LevelInfo.String()).Str("msg", "request").Str("method", asked.Method).Str("route", route).Str("path", asked.Path)
		asked.rest(e)
	})
	if tenant != "" {
		t.after = members(func(e *zerolog.Event) { e.Str("tenant", tenant) })
	}
	return t
}

func members(add func(e *zerolog.Event)) []byte {
	var b bytes.Buffer
	log := zerolog.New(&b)
	e := log.Log()
	add(e)
	e.Send()
	return append(bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte("{")), []byte("}\n")), ',')
}

// EndRepeated takes the record of a request that a template was made of, in less
// time than End. It returns the buffer that it was given, which may have grown.
func (r *Recorder) EndRepeated(t *Template, rec *Record, end *End, buffer []byte) []byte {
	r.metrics.observeRepeated(t, rec, end)
	return r.logRepeated(t, rec, end, buffer)
}

// observeRepeated finds the series as those of the template's last record, whose
// ending is mostly the same.
func (m *metrics) observeRepeated(t *Template, rec *Record, end *End) {
	last := t.counted.Load()
	if last == nil || last.by.status != end.Status || last.by.outcome != rec.Outcome || last.by.fault != fault(rec, end) {
		by := endingOf(rec, end)
		last = &counted{by, m.series(by)}
		t.counted.Store(last)
	}
	m.observeIn(last.all, rec, end)
}

// logRepeated writes the line that log would write, in less time.
func (r *Recorder) logRepeated(t *Template, rec *Record, end *End, buffer []byte) []byte {
	if end.Status >= http.StatusInternalServerError {
		r.log(rec, end)
		return buffer
	}
	if r.o.AccessLog == nil || r.o.OnlyFailures || r.skips(end.Status) || !r.o.Logger.Enabled(context.Background(), slog.LevelInfo) {
		return buffer
	}
	b := append(appendTime(append(buffer[:0], `{"time":"`...), rec.Start.Add(end.Took)), `",`...)
	b = append(b, t.before...)
	b = strconv.AppendInt(append(b, `"status":`...), int64(end.Status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(end.Size), 10)
	b = appendDecimal(append(b, `,"duration_ms":`...), end.Took.Microseconds(), 1000)
	b = append(append(append(b, `,"outcome":"`...), rec.Outcome...), `","store":"`...)
	b = append(append(b, rec.Store...), `","height":`...)
	b = strconv.AppendInt(append(strconv.AppendInt(b, rec.Height, 10), `,"tip":`...), rec.Tip, 10)
	b = appendDecimal(append(b, `,"age_s":`...), rec.Age.Microseconds(), 1_000_000)
	b = append(append(append(b, `,"request_id":"`...), end.ID...), `","client":"`...)
	b = append(end.Client.AppendTo(b), `",`...)
	b = append(b, t.after...)
	b[len(b)-1] = '}' // in place of the last comma
	b = append(b, '\n')
	_, _ = r.o.AccessLog.Write(b) // nobody could be told
	return b
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
