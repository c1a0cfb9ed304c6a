package admin

import (
	"maps"
	"slices"
	"time"
)

// A sample is the process at one moment. Rates are per second, since the sample
// before.
type sample struct {
	At       int64              `json:"at"`       // Unix time in milliseconds
	Tip      float64            `json:"tip"`      // newest block; 0: none known
	Interval float64            `json:"interval"` // seconds between two blocks, as learned
	Answers  map[string]float64 `json:"answers"`  // rate by outcome
	Hits     *float64           `json:"hits"`     // share of the cache's answers that were at hand; null: it was not asked
	Calls    float64            `json:"calls"`    // rate of the reads of nodes and store
	Renewals float64            `json:"renewals"` // rate of the keys that took a newer answer into memory
	Ahead    map[string]float64 `json:"ahead"`    // rate of the keys to be read when a block came, by result
	Behind   []float64          `json:"behind"`   // answers by blocks behind the tip, for each of the bounds
	P50      *float64           `json:"p50"`      // seconds an answer took; null: there was none
	P99      *float64           `json:"p99"`

	Memory      float64 `json:"memory"` // bytes of cached answers
	Entries     float64 `json:"entries"`
	Evictions   float64 `json:"evictions"` // rate
	Resident    float64 `json:"resident"`  // bytes of the process
	Heap        float64 `json:"heap"`
	CPU         float64 `json:"cpu"` // cores in use
	Goroutines  float64 `json:"goroutines"`
	Connections float64 `json:"connections"`
	Waiting     float64 `json:"waiting"` // callers that wait for origins

	RedisTime   *float64           `json:"redis_time"` // median seconds of an exchange; null: there was none
	RedisRate   float64            `json:"redis_rate"`
	RedisErrors float64            `json:"redis_errors"` // rate
	StoreTime   *float64           `json:"store_time"`   // median seconds of a listing
	StoreRate   float64            `json:"store_rate"`
	Provider    map[string]float64 `json:"provider"` // rate of requests by outcome
	Logs        float64            `json:"logs"`     // rate of events indexed

	Nodes map[string]nodeSample `json:"nodes"`
}

// A nodeSample is one node.
type nodeSample struct {
	Rate     float64 `json:"rate"`
	Mean     float64 `json:"mean"` // seconds of an answer; 0: there was none
	InFlight float64 `json:"in_flight"`
	Queue    float64 `json:"queue"`
	Lag      float64 `json:"lag"` // blocks
}

// The metrics that are drawn. Each is registered by the package that it tells of.
const (
	requestSeconds = "tipcache_proxy_request_duration_seconds"
	nodeSeconds    = "tipcache_node_request_duration_seconds"
	redisSeconds   = "tipcache_cache_shared_duration_seconds"
	storeSeconds   = "tipcache_collections_list_duration_seconds"
	staleness      = "tipcache_proxy_staleness_blocks"
)

// A moment is a sample with the counters that the next one is compared with.
type moment struct {
	sample
	at      time.Time
	all     families // nil once another moment has come
	routes  map[string]routeTotals
	bounds  []float64 // of sample.Behind
	started float64
	totals  totals
	limits  limits
}

// newMoment makes a moment of the metrics; before is nil for the first.
func newMoment(all families, at time.Time, before *moment) *moment {
	m := &moment{
		at: at, all: all, routes: routesOf(all), bounds: all.distribution(staleness).bounds, started: all.total("process_start_time_seconds"),
		totals: totals{all.total("tipcache_proxy_requests_total")},
		limits: limits{all.total("tipcache_http_connections_limit"), all.total("tipcache_cache_memory_limit_bytes")},
	}
	d := since{all, all, interval.Seconds()}
	if before != nil {
		if maps.Equal(m.routes, before.routes) {
			m.routes = before.routes // idle processes keep one
		}
		d.before, d.seconds = before.all, max(at.Sub(before.at).Seconds(), 1e-3)
	}
	m.sample = sample{
		At: at.UnixMilli(), Tip: all.total("tipcache_node_tip_height"), Interval: all.total("tipcache_node_block_interval_seconds"),
		Answers: d.rates("tipcache_proxy_requests_total", "outcome"), Calls: d.rate("tipcache_cache_origin_calls_total"), Renewals: d.rate("tipcache_cache_renewals_total"),
		Hits: d.hits(), Ahead: d.rates("tipcache_cache_read_ahead_total", "result"), Behind: d.distribution(staleness).counts,
		P50: d.distribution(requestSeconds).quantile(0.5), P99: d.distribution(requestSeconds).quantile(0.99),
		Nodes: d.nodes(),
	}
	m.process(d)
	m.parts(d)
	return m
}

func (m *moment) process(d since) {
	all := d.now
	m.Memory, m.Entries = all.total("tipcache_cache_memory_bytes"), all.total("tipcache_cache_memory_entries")
	m.Evictions = d.rate("tipcache_cache_evictions_total")
	m.Resident, m.Heap = all.total("process_resident_memory_bytes"), all.total("go_memstats_heap_inuse_bytes")
	m.CPU, m.Goroutines = d.rate("process_cpu_seconds_total"), all.total("go_goroutines")
	m.Connections, m.Waiting = all.total("tipcache_http_connections"), all.total("tipcache_cache_waiting")
}

func (m *moment) parts(d since) {
	m.RedisTime, m.RedisRate = d.distribution(redisSeconds).quantile(0.5), d.rate(redisSeconds)
	m.RedisErrors = d.rate("tipcache_cache_shared_errors_total")
	m.StoreTime, m.StoreRate = d.distribution(storeSeconds).quantile(0.5), d.rate(storeSeconds)
	m.Provider = d.rates("tipcache_metadata_requests_total", "outcome")
	m.Logs = d.rate("tipcache_indexer_logs_total")
}

// since compares the metrics of two moments.
type since struct {
	now, before families
	seconds     float64
}

func (d since) rate(name string) float64 {
	return max(0, d.now.total(name)-d.before.total(name)) / d.seconds
}

func (d since) rates(name, label string) map[string]float64 {
	before := d.before.by(name, label)
	rates := map[string]float64{}
	for value, n := range d.now.by(name, label) {
		rates[value] = max(0, n-before[value]) / d.seconds
	}
	return rates
}

func (d since) distribution(name string) distribution {
	return d.now.distribution(name).since(d.before.distribution(name))
}

// hits is the share of the cache's answers that were at hand.
func (d since) hits() *float64 {
	rates := d.rates("tipcache_cache_requests_total", "outcome")
	all := 0.0
	for _, rate := range rates {
		all += rate
	}
	if all == 0 {
		return nil
	}
	share := (rates["hit"] + rates["stale"]) / all
	return &share
}

func (d since) nodes() map[string]nodeSample {
	nodes, rates := map[string]nodeSample{}, d.rates(nodeSeconds, "node")
	took := d.took(nodeSeconds, "node")
	for _, name := range slices.Sorted(maps.Keys(d.now.by("tipcache_node_in_flight", "node"))) {
		n := nodeSample{
			Rate: rates[name], InFlight: d.now.sum("tipcache_node_in_flight", "node", name),
			Queue: d.now.sum("tipcache_node_queue_length", "node", name), Lag: d.now.sum("tipcache_node_lag_blocks", "node", name),
		}
		if n.Rate > 0 {
			n.Mean = took[name] / (n.Rate * d.seconds)
		}
		nodes[name] = n
	}
	return nodes
}

// took is the time that histograms have added, by a label.
func (d since) took(name, label string) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range d.now[name].GetMetric() {
		sums[labelOf(m, label)] += m.GetHistogram().GetSampleSum()
	}
	for _, m := range d.before[name].GetMetric() {
		sums[labelOf(m, label)] -= m.GetHistogram().GetSampleSum()
	}
	return sums
}
