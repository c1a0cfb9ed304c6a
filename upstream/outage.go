package upstream

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An upstream is in an outage once no request to it has completed for outageAfter and at least
// outageFailures have failed.
const (
	outageAfter    = 3 * time.Second
	outageFailures = 3
)

// An Outage watches whether the requests to one upstream complete. It begins when they have failed
// for long enough, or when Begin is called, and ends with the next request that completes. The log
// gets one line when it begins and one when it ends. It is safe for concurrent use.
type Outage struct {
	log  *slog.Logger
	name string

	mu       sync.Mutex
	failures int       // since a request last completed
	first    time.Time // when the first of them failed
	cause    error     // of the last failure
	began    time.Time // zero while there is no outage
}

// NewOutage returns the Outage of the upstream that the log and metrics call name.
func NewOutage(log *slog.Logger, name string) *Outage { return &Outage{log: log, name: name} }

// Name returns the name of the upstream.
func (o *Outage) Name() string { return o.name }

// Failed records that a request failed, and begins the outage if that is due.
func (o *Outage) Failed(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(cause)
	o.judge()
}

// Begin begins the outage at once: a circuit breaker has opened, or the upstream cannot be used.
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
	if !o.began.IsZero() {
		o.log.Info("upstream reachable again", "origin", o.name, "after", time.Since(o.began).Round(time.Millisecond).String())
	}
	o.failures, o.cause, o.began = 0, nil, time.Time{}
}

// Note records how a request went; nil means that it completed.
func (o *Outage) Note(failure error) {
	if failure == nil {
		o.End()
		return
	}
	o.Failed(failure)
}

// Failing reports whether the last request failed.
func (o *Outage) Failing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failures > 0
}

// Cause says for how long the upstream has been failing, and why. It is nil while there is no outage.
func (o *Outage) Cause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.judge(); o.began.IsZero() {
		return nil
	}
	return fmt.Errorf("has been failing for %s: %w", time.Since(o.first).Round(time.Second), o.cause)
}

// fail counts a failure. The caller holds mu.
func (o *Outage) fail(cause error) {
	if o.failures == 0 {
		o.first = time.Now()
	}
	o.failures, o.cause = o.failures+1, cause
}

// judge begins the outage if the failures are enough. The caller holds mu.
func (o *Outage) judge() {
	if o.failures >= outageFailures && time.Since(o.first) >= outageAfter {
		o.begin()
	}
}

// begin logs the outage, unless it has begun before. The caller holds mu.
func (o *Outage) begin() {
	if o.began.IsZero() {
		o.began = time.Now()
		o.log.Warn("upstream unreachable", "origin", o.name, "error", o.cause)
	}
}

// Outages are the outages of a process's upstreams. They are a [prometheus.Collector].
type Outages []*Outage

// Causes says of each upstream that is in an outage why, by its name.
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
	causes := all.Causes()
	for _, o := range all {
		value := 0.0
		if causes[o.name] != "" {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(degradedDesc, prometheus.GaugeValue, value, o.name)
	}
}
