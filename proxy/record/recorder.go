package record

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
)

// A Recorder counts, logs and traces requests. It is safe for concurrent use.
type Recorder struct {
	o       Options
	metrics *metrics
	tracer  trace.Tracer // nil disables traces
}

// New returns a Recorder and registers its metrics.
func New(o Options) *Recorder {
	r := &Recorder{o: o, metrics: newMetrics(o.Registerer)}
	if o.Tracing != nil {
		r.tracer = o.Tracing.Tracer("tipcache/proxy")
	}
	return r
}

// metrics have labels with few values: routes are bounded by the table, methods by methodClass, statuses and
// outcomes by the code.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	staleness *prometheus.HistogramVec
	ages      *prometheus.HistogramVec
	degraded  prometheus.Counter
	keys      *prometheus.CounterVec

	mu      sync.Mutex
	series  atomic.Pointer[map[ending]series]     // replaced under mu, read without
	results atomic.Pointer[map[string]keyResults] // by name of the key; likewise
}

// keyResults count the requests of the keys with one name.
type keyResults struct{ answered, refused, failed prometheus.Counter }

// An ending is the set of label values of a request.
type ending struct {
	route, method, outcome, fault string
	status                        int
}

// series count the requests of one ending.
type series struct {
	requests  prometheus.Counter
	durations prometheus.Observer
	staleness prometheus.Observer
	ages      prometheus.Observer
}

// newMetrics registers the metrics, unless r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_proxy_requests_total",
			Help: "Requests by route, method, status and outcome. For 5xx responses, fault is input (caused by the request) or server.",
		}, []string{"route", "method", "status", "outcome", "fault"}),
		durations: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_request_duration_seconds",
			Help:    "Duration of requests in seconds, from arrival to the end of the response, without waits for the block that a client requires. Streams are not included.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 10), // 50 us to 13 s

			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"route", "outcome"}),
		staleness: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_staleness_blocks",
			Help:    "Blocks between the tip and the block of the response. Responses at a requested block do not count, nor do responses that never change.",
			Buckets: []float64{0, 1, 2, 3, 5, 10, 30, 100, 1000},
		}, []string{"route"}),
		ages: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tipcache_proxy_age_seconds",
			Help:    "Age of responses in seconds, if freshness is not measured in blocks.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 9), // 0.1 s to 1.8 h
		}, []string{"route"}),
		degraded: f.NewCounter(prometheus.CounterOpts{
			Name: "tipcache_proxy_degraded_pages_total",
			Help: "Collection pages sent without metadata that they should have.",
		}),
	}
	m.keys = f.NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_key_requests_total",
		Help: "Requests by the name of their API key and by result: answered, refused (status 401, 403 and 429) or failed (status 500 and above).",
	}, []string{"key", "result"})
	m.series.Store(&map[ending]series{})
	m.results.Store(&map[string]keyResults{})
	return m
}

// Begin sets the id of a request, and returns the request with its span in the context, if it is traced. The span belongs
// to the trace of a trusted proxy's traceparent. The traceparent of another client is only a link of the span: neither its
// flag nor its trace id, from which the sampler computes, may decide what is exported.
func (r *Recorder) Begin(request *http.Request, rec *Record) *http.Request {
	rec.ID[0] = RequestID(request.Header)
	if r.tracer == nil {
		return request
	}
	fromProxy := r.o.FromProxy != nil && r.o.FromProxy(request)
	if rec.Sampling == Undecided {
		rec.Sampling = r.Sample(fromProxy, request.Header.Get("Traceparent"))
	}
	o := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(rec.Start)}
	ctx := context.WithValue(request.Context(), samplingKey{}, rec.Sampling)
	sent := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(request.Header))
	if fromProxy {
		ctx = sent
	} else if of := trace.SpanContextFromContext(sent); of.IsValid() {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: of.WithTraceState(trace.TraceState{})}))
	}
	ctx, rec.span = r.tracer.Start(ctx, rec.Route, o...)
	return request.WithContext(ctx)
}

// Result records the result of a cache query.
func (rec *Record) Result(res cache.Result) {
	rec.Cached = true
	rec.Outcome, rec.Store, rec.Err = outcome(res), res.Store, res.Err
	rec.Blameless = !res.Entry.Failed
	rec.Height, rec.Age = res.Entry.Height, max(0, rec.Start.Sub(res.Entry.ReadAt))
}

// outcome returns the outcome as a label. It distinguishes callers that joined a flight from the one that began it.
func outcome(res cache.Result) string {
	if res.Outcome == cache.Miss && res.Collapsed {
		return "collapsed"
	}
	return string(res.Outcome)
}

// End counts and logs a request that has ended. of is nil for a request that
// shares nothing with others.
func (r *Recorder) End(rec *Record, end *End, of *Repeated) {
	if rec.Outcome == "" {
		rec.Outcome = "answered"
	}
	by := ending{rec.Route, methodClass(end.Method), rec.Outcome, fault(rec, end), end.Status}
	r.metrics.observe(r.seriesOf(by, of), rec, end)
	if r.logs(end.Status, levelOf(rec, end)) {
		r.writeLine(rec, end, of)
	}
	if rec.span != nil {
		rec.endSpan(end)
	}
}

// Repeated is shared by requests with the same method, route, path and query. They mostly end in the same way, so
// it saves most of the work of counting and logging them.
type Repeated struct {
	members []byte // of the log line, in JSON
	last    atomic.Pointer[lastSeries]
}

// lastSeries are the series of the last ending.
type lastSeries struct {
	by  ending
	all series
}

// NewRepeated returns a Repeated for the requests of a route that have a head.
func NewRepeated(route string, head Head) *Repeated {
	return &Repeated{members: appendHead(nil, slog.LevelInfo, route, head)}
}

func (r *Recorder) seriesOf(by ending, of *Repeated) series {
	if of == nil {
		return r.metrics.seriesOf(by)
	}
	last := of.last.Load()
	if last == nil || last.by != by {
		last = &lastSeries{by, r.metrics.seriesOf(by)}
		of.last.Store(last)
	}
	return last.all
}

// fault returns the cause of a status of 500 and above: input or server. Clients can cause some of them at will, for
// example by waiting for a block that does not arrive. A 503 is never caused by the request.
func fault(rec *Record, end *End) string {
	switch {
	case end.Status < http.StatusInternalServerError:
		return ""
	case rec.Err == nil && rec.Blameless, rec.Err != nil && rec.Expected && end.Status != http.StatusServiceUnavailable:
		return "input"
	}
	return "server"
}

func (m *metrics) observe(s series, rec *Record, end *End) {
	s.requests.Inc()
	if !rec.Streamed {
		s.durations.Observe((end.Took - rec.Waited).Seconds())
	}
	switch {
	case !rec.Cached || rec.Pinned:
	case rec.Height > 0 && rec.Tip > 0:
		s.staleness.Observe(float64(max(0, rec.Tip-rec.Height)))
	default:
		s.ages.Observe(rec.Age.Seconds())
	}
	if rec.Degraded {
		m.degraded.Inc()
	}
	if key := rec.Client.Key.Name; key != "" {
		m.ofKey(key).of(end.Status).Inc()
	}
}

func (r keyResults) of(status int) prometheus.Counter {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests:
		return r.refused
	case status >= http.StatusInternalServerError:
		return r.failed
	}
	return r.answered
}

// ofKey returns the counters for a key's name. Only configured keys have one.
func (m *metrics) ofKey(name string) keyResults {
	if found, ok := (*m.results.Load())[name]; ok {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(*m.results.Load())
	all[name] = keyResults{m.keys.WithLabelValues(name, "answered"), m.keys.WithLabelValues(name, "refused"), m.keys.WithLabelValues(name, "failed")}
	m.results.Store(&all)
	return all[name]
}

// seriesOf returns the series of an ending. To find them by labels, as the registry does, would take longer than the
// cache.
func (m *metrics) seriesOf(e ending) series {
	if found, ok := (*m.series.Load())[e]; ok {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := maps.Clone(*m.series.Load())
	known[e] = series{
		m.requests.WithLabelValues(e.route, e.method, strconv.Itoa(e.status), e.outcome, e.fault),
		m.durations.WithLabelValues(e.route, e.outcome),
		m.staleness.WithLabelValues(e.route),
		m.ages.WithLabelValues(e.route),
	}
	m.series.Store(&known)
	return known[e]
}

// methodClass returns the label for a method, which may be any word. Unlike method, whose bytes may be in a
// connection's buffer, the result may be retained.
func methodClass(method string) string {
	for _, known := range [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, "QUERY"} { // of RFC 10008
		if method == known {
			return known
		}
	}
	return "other"
}

// levelOf returns warn for failures that clients can cause at will, and error for other failures of this server.
func levelOf(rec *Record, end *End) slog.Level {
	switch {
	case end.Status >= http.StatusInternalServerError && rec.Err != nil && rec.Expected:
		return slog.LevelWarn
	case fault(rec, end) == "server":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// logs reports whether a line is written.
func (r *Recorder) logs(status int, level slog.Level) bool {
	skipped := status < http.StatusBadRequest && r.o.SkipLog > 0 && rand.Float64() < r.o.SkipLog
	return r.o.AccessLog != nil && !skipped && (!r.o.OnlyFailures || level >= slog.LevelError) && r.o.Logger.Enabled(context.Background(), level)
}
