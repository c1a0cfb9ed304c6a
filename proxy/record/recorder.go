package record

import (
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
)

// A Recorder counts, logs and traces requests. It is safe for concurrent use.
type Recorder struct {
	o       Options
	lines   zerolog.Logger // on the access log
	metrics *metrics
	tracer  trace.Tracer // nil: no traces
}

// New registers the metrics.
func New(o Options) *Recorder {
	return &Recorder{o, zerolog.New(o.AccessLog), newMetrics(o.Registerer), tracerOf(o.Tracing)}
}

// Begin gives back the request, in the context of its span if it is traced.
func (r *Recorder) Begin(request *http.Request, rec *Record) *http.Request {
	if r.tracer == nil {
		return request
	}
	return r.trace(request, rec)
}

// The longest query and User-Agent that are logged, in bytes.
const (
	maxQuery = 2 << 10
	maxAgent = 256
)

// AskedBy is what a request says of itself. It holds no key.
func AskedBy(r *http.Request) Asked {
	return Asked{r.Method, r.URL.Path, atMost(maxQuery, withoutKeys(r.URL.RawQuery)), Agent(r.UserAgent())}
}

func atMost(bytes int, text string) string { return text[:min(len(text), bytes)] }

// Agent is a User-Agent as it is logged.
func Agent(sent string) string { return atMost(maxAgent, sent) }

// Result notes what came of asking the cache.
func (rec *Record) Result(res cache.Result) {
	rec.Cached = true
	rec.Outcome, rec.Store, rec.Err = outcome(res), res.Store, res.Err
	rec.Blameless = !res.Entry.Failed
	rec.Height, rec.Age = res.Entry.Height, max(0, rec.Start.Sub(res.Entry.ReadAt))
}

// outcome tells the callers that joined a flight from the caller that began it.
func outcome(res cache.Result) string {
	if res.Outcome == cache.Miss && res.Collapsed {
		return "collapsed"
	}
	return res.Outcome.String()
}

// keyInQuery is a key that a URL for EventSource carries, wherever that URL is
// opened.
var keyInQuery = regexp.MustCompile(`(api_key=)[^&]*`)

// withoutKeys is a query as it may be logged.
func withoutKeys(query string) string {
	if !strings.Contains(query, "api_key=") {
		return query
	}
	return keyInQuery.ReplaceAllString(query, "${1}redacted")
}

// End takes the record of a request that has ended.
func (r *Recorder) End(rec *Record, end *End) {
	r.metrics.observe(rec, end)
	r.log(rec, end)
	if rec.span != nil {
		rec.endSpan(end)
	}
}

func (m *metrics) observe(rec *Record, end *End) {
	m.observeIn(m.series(endingOf(rec, end)), rec, end)
}

// A Tally counts requests that mostly end in the same way, in less time than End does.
type Tally struct{ last atomic.Pointer[tallied] }

type tallied struct {
	by  ending
	all series
}

// Count counts a request that has ended.
func (r *Recorder) Count(t *Tally, rec *Record, end *End) {
	last := t.last.Load()
	if by := endingOf(rec, end); last == nil || last.by != by {
		last = &tallied{by, r.metrics.series(by)}
		t.last.Store(last)
	}
	r.metrics.observeIn(last.all, rec, end)
}

func endingOf(rec *Record, end *End) ending {
	return ending{rec.Route, methodClass(end.Method), rec.Outcome, fault(rec, end), end.Status}
}

// fault says whose fault a status of 500 and more is: that of the input, or of a server.
// Clients have it as they like to ask for a block that does not come; a 503 says that
// something is short here.
func fault(rec *Record, end *End) string {
	switch {
	case end.Status < http.StatusInternalServerError:
		return ""
	case rec.Err == nil && rec.Blameless, rec.Err != nil && rec.Expected && end.Status != http.StatusServiceUnavailable:
		return "input"
	}
	return "server"
}

func (m *metrics) observeIn(counted series, rec *Record, end *End) {
	counted.requests.Inc()
	if !rec.Streamed {
		counted.durations.Observe(end.Took.Seconds())
	}
	switch {
	case !rec.Cached || rec.Pinned:
	case rec.Height > 0 && rec.Tip > 0:
		counted.staleness.Observe(float64(max(0, rec.Tip-rec.Height)))
	default:
		counted.ages.Observe(rec.Age.Seconds())
	}
	if rec.Degraded {
		m.degraded.Inc()
	}
}

// series finds those of an ending: by labels, as the registry finds them, it
// would take longer than the cache.
func (m *metrics) series(e ending) series {
	if found, ok := (*m.known.Load())[e]; ok {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := maps.Clone(*m.known.Load())
	known[e] = series{
		m.requests.WithLabelValues(e.route, e.method, strconv.Itoa(e.status), e.outcome, e.fault),
		m.durations.WithLabelValues(e.route, e.outcome),
		m.staleness.WithLabelValues(e.route),
		m.ages.WithLabelValues(e.route),
	}
	m.known.Store(&known)
	return known[e]
}

// methodClass bounds the label: a method may be any word.
func methodClass(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, "QUERY": // of RFC 10008
		return method
	}
	return "other"
}
