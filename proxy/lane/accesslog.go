package lane

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/tipcache/tipcache/proxy/record"
)

// A line has what the lines of the access log for one key have in common: the
// members that stand before the members that vary.
type line struct{ before []byte }

// newLine has the library render them, once.
func newLine(route string, r *http.Request) *line {
	asked := record.AskedBy(r)
	return &line{members(func(e *zerolog.Event) {
		e.Str("level", slog.LevelInfo.String()).Str("msg", "request").Str("method", asked.Method).Str("route", route).Str("path", asked.Path)
		if asked.Query != "" {
			e.Str("query", asked.Query)
		}
	})}
}

func members(add func(e *zerolog.Event)) []byte {
	var b bytes.Buffer
	log := zerolog.New(&b)
	e := log.Log()
	add(e)
	e.Send()
	return append(bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte("{")), []byte("}\n")), ',')
}

// append appends the line that package record would write, in less time.
func (l *line) append(b []byte, n *replay, agent string) []byte {
	rec, end := &n.rec.Record, &n.end
	b = append(appendTime(append(b, `{"time":"`...), rec.Start.Add(end.Took)), `",`...)
	b = append(b, l.before...)
	if agent != "" {
		b = appendMember(b, "user_agent", agent)
	}
	b = strconv.AppendInt(append(b, `"status":`...), int64(end.Status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(end.Size), 10)
	b = appendDecimal(append(b, `,"duration_ms":`...), end.Took.Microseconds(), 1000)
	b = append(append(append(b, `,"outcome":"`...), rec.Outcome...), `","store":"`...)
	b = append(append(b, rec.Store...), `","height":`...)
	b = strconv.AppendInt(append(strconv.AppendInt(b, rec.Height, 10), `,"tip":`...), rec.Tip, 10)
	b = appendDecimal(append(b, `,"age_s":`...), rec.Age.Microseconds(), 1_000_000)
	b = append(append(append(b, `,"request_id":"`...), n.id...), `","client":"`...)
	b = append(end.Client.AppendTo(b), `",`...)
	if rec.Tenant != "" {
		b = appendMember(b, "tenant", rec.Tenant)
	}
	b[len(b)-1] = '}' // in place of the last comma
	return append(b, '\n')
}

// appendMember appends a text, and has the library do so where it has to be escaped.
func appendMember(b []byte, name, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, members(func(e *zerolog.Event) { e.Str(name, text) })...)
		}
	}
	b = append(append(append(b, '"'), name...), `":"`...)
	return append(append(b, text...), `",`...)
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
