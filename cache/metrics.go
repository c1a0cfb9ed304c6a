package cache

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"

	otterstats "github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream"
)

// counts holds the counters of a cache. As the memory store's StatsRecorder, it counts evictions.
type counts struct {
	otterstats.NoopRecorder

	requests [len(outcomes)][len(stores)]atomic.Uint64 // by outcome and store
	variants [codings.Count]atomic.Uint64
	ahead    ahead.Counts

	collapsed, flights, skipped, originCalls, originErrors, evictions, renewals atomic.Uint64

	writing      atomic.Int64             // leases being released in the shared store
	leaseWaiting atomic.Int64             // flights waiting for another replica's lease
	leaseSeconds *prometheus.HistogramVec // by end of the wait
}

// RecordEviction counts an evicted entry.
func (n *counts) RecordEviction(uint32) { n.evictions.Add(1) }

func (c *Cache) register() error {
	c.metrics = prometheus.NewRegistry()
	c.metrics.MustRegister(c.collectors()...)
	if err := c.o.Registerer.Register(c.metrics); err != nil {
		return fmt.Errorf("register metrics of the cache: %w", err)
	}
	return nil
}

func (c *Cache) collectors() []prometheus.Collector {
	n := &c.counts
	all := []prometheus.Collector{
		n.leaseSeconds,
		counter("collapsed_total", "Misses served by another caller's flight.", &n.collapsed, nil),
		counter("flights_total", "Flights started, including background flights.", &n.flights, nil),
		counter("background_skipped_total", "Background flights not started because too many were in progress.", &n.skipped, nil),
		counter("origin_calls_total", "Upstream requests.", &n.originCalls, nil),
		counter("origin_errors_total", "Failed upstream requests.", &n.originErrors, nil),
		counter("evictions_total", "Entries evicted because memory was full.", &n.evictions, nil),
		counter("renewals_total", "Entries with a height that were stored in memory: new keys, and newer entries of known keys.", &n.renewals, nil),
		gauge("shared_writes", "Leases being released in Redis, with or without an entry.", func() float64 { return float64(n.writing.Load()) }),
		gauge("lease_waiting", "Flights waiting for another replica's lease.", func() float64 { return float64(n.leaseWaiting.Load()) }),
		gauge("waiting", "Callers waiting for flights.", func() float64 { return float64(int64(c.o.MaxWaiters) - c.waiters.Free(math.MaxInt64)) }),
		gauge("background_flights", "Background tasks in progress (refreshes and compression).", func() float64 { return float64(c.background.Load()) }),
		gauge("memory_bytes", "Memory used by cached entries, in bytes.", func() float64 { return float64(c.space.Load().memory.WeightedSize()) }),
		gauge("memory_limit_bytes", "Maximum memory for cached entries and reservations, in bytes.", func() float64 { return float64(c.o.MemoryBytes) }),
		gauge("memory_entries", "Entries in memory.", func() float64 { return float64(c.Entries()) }),
	}
	for o := range n.requests {
		for i, store := range stores {
			all = append(all, counter("requests_total", "Cache requests by outcome and by the store that served them.",
				&n.requests[o][i], prometheus.Labels{"outcome": cmp.Or(string(outcomes[o]), "error"), "store": cmp.Or(store, "none")}))
		}
	}
	for r := range n.ahead {
		all = append(all, counter("read_ahead_total", "Keys selected to be read ahead when a block arrived, by result: origin (read), shared (another replica had read it), needless (a caller was faster, or another replica was reading it), yielded (no upstream capacity or no time left) or failed. Keys that were read but not requested until the next block also count as unused. Keys left after 16 failed reads in a row, which end the reading, are not counted.",
			&n.ahead[r], prometheus.Labels{"result": ahead.Result(r).String()}))
	}
	for coding := codings.Gzip; coding < codings.Count; coding++ {
		all = append(all, counter("encodings_total", "Bodies encoded, by content coding. Each encoded body is cached.", &n.variants[coding], prometheus.Labels{"coding": codings.Names[coding]}))
	}
	return all
}

func counter(name, help string, n *atomic.Uint64, labels prometheus.Labels) prometheus.Collector {
	o := prometheus.CounterOpts{Name: "tipcache_cache_" + name, Help: help, ConstLabels: labels}
	return prometheus.NewCounterFunc(o, func() float64 { return float64(n.Load()) })
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tipcache_cache_" + name, Help: help}, value)
}

func newLeaseSeconds() *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(upstream.Durations("tipcache_cache_lease_wait_duration_seconds",
		"Time spent waiting for another replica's lease in seconds, by end: woken, failed (its read failed), expired or timeout.",
		prometheus.ExponentialBuckets(.001, 4, 8), // 1 ms to 16 s
	), []string{"end"})
	for _, end := range []string{"woken", "failed", "expired", "timeout"} {
		seconds.WithLabelValues(end) // rates need a sample at zero
	}
	return seconds
}
