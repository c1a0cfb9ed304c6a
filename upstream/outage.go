package upstream

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An outage begins when no request has completed for outageAfter and at least outageFailures have failed.
const (
	outageAfter    = 3 * time.Second
	outageFailures = 3
)

// outageMemory is how long an outage lasts after the last failure, if no request completes.
const outageMemory = 5 * time.Minute

// An Outage detects outages of one upstream. An outage begins when requests have failed for long enough, or when Begin is
// called. It ends with the next completed request, or outageMemory after the last failure. Both are logged. An Outage is
// safe for concurrent use.
type Outage struct {
	log  *slog.Logger
	name string

	mu       sync.Mutex
	failures int       // since the last completed request
	first    time.Time // time of the first of these failures
	last     time.Time // time of the last of these failures
	cause    error     // of the last failure
	began    time.Time // zero while there is no outage
}

// NewOutage returns the Outage of an upstream. The log and metrics use name.
func NewOutage(log *slog.Logger, name string) *Outage { return &Outage{log: log, name: name} }

// Name returns the name of the upstream.
func (o *Outage) Name() string { return o.name }

// Begin begins the outage at once, for example when a circuit breaker has opened.
func (o *Outage) Begin(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(cause)
	o.begin()
}

// End records that a request completed, and ends the outage.
func (o *Outage) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end("upstream reachable again")
}

// Record records the outcome of a request. It begins an outage if enough requests have failed. nil means that the
// request completed.
func (o *Outage) Record(failure error) {
	if failure == nil {
		o.End()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(failure)
	o.check()
}

// Failing reports whether the last request failed.
func (o *Outage) Failing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failures > 0
}

// Cause returns an error with the duration and cause of the outage, or nil if there is none.
func (o *Outage) Cause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failures > 0 && time.Since(o.last) >= outageMemory {
		o.end("upstream not requested any more, no longer degraded")
	}
	if o.check(); o.began.IsZero() {
		return nil
	}
	since := time.Since(o.first)
	if since < time.Second {
		return fmt.Errorf("has just failed: %w", o.cause)
	}
	return fmt.Errorf("has been failing for %s: %w", since.Round(time.Second), o.cause)
}

// fail counts a failure. The caller must hold mu.
func (o *Outage) fail(cause error) {
	if o.failures == 0 {
		o.first = time.Now()
	}
	o.failures, o.cause, o.last = o.failures+1, cause, time.Now()
}

// end forgets the failures and logs the end of an outage. The caller must hold mu.
func (o *Outage) end(message string) {
	if !o.began.IsZero() {
		o.log.Info(message, "origin", o.name, "after", time.Since(o.began).Round(time.Millisecond).String())
	}
	o.failures, o.cause, o.began = 0, nil, time.Time{}
}

// check begins the outage if enough requests have failed. The caller must hold mu.
func (o *Outage) check() {
	if o.failures >= outageFailures && time.Since(o.first) >= outageAfter {
		o.begin()
	}
}

// begin logs the outage, unless it has begun before. The caller must hold mu.
func (o *Outage) begin() {
	if o.began.IsZero() {
		o.began = time.Now()
		o.log.Warn("upstream unreachable", "origin", o.name, "error", o.cause)
	}
}

// Durations returns the options of a histogram of durations in seconds, with classic buckets and native ones.
func Durations(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Outages holds the Outage of each upstream. It implements [prometheus.Collector]. Upstreams with one name, such as two
// clients of one host, count as one: it is degraded while one of them is.
type Outages []*Outage

// Causes returns the causes of the current outages by name.
func (all Outages) Causes() map[string]string {
	causes := map[string]string{}
	for _, o := range all {
		if cause := o.Cause(); cause != nil {
			causes[o.name] = cause.Error()
		}
	}
	return causes
}

var degradedDesc = prometheus.NewDesc("tipcache_upstream_degraded",
	"1 while an upstream is degraded: no request to it has completed for three seconds and at least three have failed, or its breaker has opened.", []string{"upstream"}, nil)

// Describe implements [prometheus.Collector].
func (all Outages) Describe(ch chan<- *prometheus.Desc) { ch <- degradedDesc }

// Collect implements [prometheus.Collector].
func (all Outages) Collect(ch chan<- prometheus.Metric) {
	values := map[string]float64{}
	for _, o := range all {
		value := 0.0
		if o.Cause() != nil {
			value = 1
		}
		values[o.name] = max(values[o.name], value)
	}
	for name, value := range values {
		ch <- prometheus.MustNewConstMetric(degradedDesc, prometheus.GaugeValue, value, name)
	}
}
