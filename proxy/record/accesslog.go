package record

import (
	"bytes"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Head is the part of a request's head that is logged. It holds no API key.
type Head struct {
	Method, Path, Query, Agent string
}

// The longest method, path, query and User-Agent that are logged, in bytes.
const (
	maxMethod = 64
	maxPath   = 2 << 10
	maxQuery  = 2 << 10
	maxAgent  = 256
)

// HeadOf returns the head of a request that was sent below a base path.
func HeadOf(r *http.Request, base string) Head {
	return Head{atMost(maxMethod, r.Method), atMost(maxPath, base+r.URL.Path), atMost(maxQuery, withoutKeys(r.URL.RawQuery)), Agent(r.UserAgent())}
}

func atMost(bytes int, text string) string { return text[:min(len(text), bytes)] }

// Agent returns the logged part of a User-Agent.
func Agent(sent string) string { return atMost(maxAgent, sent) }

// keyInQuery matches the API key in a query. EventSource can send it only there.
var keyInQuery = regexp.MustCompile(`(api_key=)[^&]*`)

// withoutKeys returns a query with API keys redacted.
func withoutKeys(query string) string {
	if !strings.Contains(query, "api_key=") {
		return query
	}
	return keyInQuery.ReplaceAllString(query, "${1}redacted")
}

var lines = sync.Pool{New: func() any { return new([]byte) }}

// writeLine writes a line of JSON with slog's member names. slog and zerolog would take longer for the line than
// the cache for the response.
func (r *Recorder) writeLine(rec *Record, end *End, of *Repeated) {
	line := lines.Get().(*[]byte) //nolint:forcetypeassert // the pool has no others
	b := append(rec.Start.Add(end.Took).AppendFormat(append((*line)[:0], `{"time":"`...), time.RFC3339Nano), `",`...)
	if of != nil {
		b = append(b, of.members...)
	} else {
		b = appendHead(b, levelOf(rec, end), rec.Route, end.Head)
	}
	if end.Agent != "" {
		b = appendText(b, "user_agent", end.Agent)
	}
	b = strconv.AppendInt(append(b, `"status":`...), int64(end.Status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(end.Size), 10)
	b = appendDecimal(append(b, `,"duration_ms":`...), end.Took.Microseconds(), 1000)
	b = append(append(append(b, `,"outcome":"`...), rec.Outcome...), `","store":"`...)
	b = append(append(b, rec.Store...), `","height":`...)
	b = strconv.AppendInt(append(strconv.AppendInt(b, rec.Height, 10), `,"tip":`...), rec.Tip, 10)
	b = appendDecimal(append(b, `,"age_s":`...), rec.Age.Microseconds(), 1_000_000)
	b = append(append(append(b, `,"request_id":"`...), rec.ID[0]...), `","client":"`...)
	b = append(rec.Client.Address.AppendTo(b), `",`...)
	if tenant := rec.Client.Key.Name; tenant != "" {
		b = appendText(b, "tenant", tenant)
	}
	if rec.span != nil && rec.span.SpanContext().IsSampled() {
		b = appendText(b, "trace_id", rec.span.SpanContext().TraceID().String())
	}
	if rec.Err != nil {
		b = appendText(b, "error", rec.Err.Error())
	}
	b[len(b)-1] = '}' // in place of the last comma
	b = hideKeys(b)
	b = append(b, '\n')
	_, _ = r.o.AccessLog.Write(b) // an error could not be logged either
	*line = b
	lines.Put(line)
}

// apiKey matches an API key anywhere in a line.
var apiKey = regexp.MustCompile(`tipcache_[A-Z2-7]{26}`)

func hideKeys(line []byte) []byte {
	if !bytes.Contains(line, []byte("tipcache_")) {
		return line
	}
	return apiKey.ReplaceAll(line, []byte("tipcache_redacted"))
}

// appendHead appends the members that repeated requests have in common.
func appendHead(b []byte, level slog.Level, route string, h Head) []byte {
	b = append(append(append(b, `"level":"`...), level.String()...), `","msg":"request",`...)
	b = appendText(b, "method", h.Method)
	b = appendText(b, "route", route)
	b = appendText(b, "path", h.Path)
	if h.Query != "" {
		b = appendText(b, "query", h.Query)
	}
	return b
}

// appendText appends a member and a comma. zerolog escapes texts that need it.
func appendText(b []byte, name, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			var escaped bytes.Buffer
			log := zerolog.New(&escaped)
			log.Log().Str(name, text).Send()
			return append(append(b, bytes.TrimSuffix(escaped.Bytes()[1:], []byte("}\n"))...), ',')
		}
	}
	b = append(append(append(b, '"'), name...), `":"`...)
	return append(append(b, text...), `",`...)
}

// appendDecimal appends a fraction whose denominator is a power of ten, in the form of strconv.AppendFloat.
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
