package admin

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Samples of ten minutes are kept. To gather the metrics takes a millisecond or two.
const (
	interval = 2 * time.Second
	kept     = 300
)

// A sampler keeps the last moments even while no page is open, so that a page shows what happened before.
type sampler struct {
	gatherer prometheus.Gatherer
	last     families // metrics of the newest moment; only sample uses it

	mu      sync.Mutex
	moments []*moment     // the newest last; only sample changes them
	next    chan struct{} // closed when another moment is added
}

// A moment is a sample with the other values of a line of the stream.
type moment struct {
	at     time.Time
	sample json.RawMessage
	routes map[string]routeTotals
	present
}

// present are the values that a line of the stream has for its newest moment only.
type present struct {
	Bounds  []float64          `json:"bounds"`  // upper bounds of the buckets of behind, in blocks; the last bucket has none
	Started float64            `json:"started"` // Unix time in seconds
	Totals  map[string]float64 `json:"totals"`  // current values of counters, as in /metrics
	Limits  map[string]float64 `json:"limits"`  // maxima of gauges; 0 means no limit or unknown
}

// sample adds a moment. Its calls do not overlap.
func (s *sampler) sample(at time.Time) {
	all := gather(s.gatherer)
	m := &moment{at: at, routes: routesOf(all), present: present{
		Bounds: all.distribution(staleness).bounds, Started: all.total("process_start_time_seconds"),
		Totals: map[string]float64{"requests": all.total(requestsTotal)},
		Limits: map[string]float64{"connections": all.ofListeners("connections_limit"), "memory": all.total("tipcache_cache_memory_limit_bytes")},
	}}
	changes := since{all, all, interval.Seconds()}
	if n := len(s.moments); n > 0 {
		changes.before, changes.seconds = s.last, max(at.Sub(s.moments[n-1].at).Seconds(), 1e-3)
	}
	m.sample, s.last = changes.sample(at), all
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moments) == kept {
		s.moments = slices.Delete(s.moments, 0, 1)
	}
	s.moments = append(s.moments, m)
	close(s.next)
	s.next = make(chan struct{})
}

// after returns the oldest kept moment if there are moments after a time, these, and a channel that is closed when another is
// added.
func (s *sampler) after(t time.Time) (oldest *moment, moments []*moment, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := slices.IndexFunc(s.moments, func(m *moment) bool { return m.at.After(t) })
	if from < 0 {
		return nil, nil, s.next
	}
	return s.moments[0], slices.Clone(s.moments[from:]), s.next
}

// Names of metrics that are used more than once. Other packages register them.
const (
	requestSeconds = "tipcache_proxy_request_duration_seconds"
	requestsTotal  = "tipcache_proxy_requests_total"
	nodeSeconds    = "tipcache_node_request_duration_seconds"
	redisSeconds   = "tipcache_cache_shared_duration_seconds"
	storeSeconds   = "tipcache_collections_list_duration_seconds"
	staleness      = "tipcache_proxy_staleness_blocks"
)

// figures compute the members of a sample, by their names in JSON. Rates are per second since the previous
// sample. Times are in seconds, or null if nothing was measured.
var figures = map[string]func(since) any{
	"tip":      total("tipcache_node_tip_height"),             // newest block; 0 means unknown
	"interval": total("tipcache_node_block_interval_seconds"), // measured time between blocks
	"answers":  rates(requestsTotal, "outcome"),
	"hits":     since.hits,                                             // requests of the cache since the previous sample that needed no upstream
	"lookups":  increased("tipcache_cache_requests_total"),             // all requests of the cache
	"calls":    rate("tipcache_cache_origin_calls_total"),              // reads of nodes and store
	"renewals": rate("tipcache_cache_renewals_total"),                  // keys whose entry in memory was replaced by a newer one
	"ahead":    rates("tipcache_cache_read_ahead_total", "result"),     // keys read ahead at new blocks
	"behind":   func(d since) any { return d.added(staleness).counts }, // responses by blocks behind the tip, per bucket of bounds
	"p50":      quantile(requestSeconds, 0.5),
	"p99":      quantile(requestSeconds, 0.99),
	"nodes":    since.nodes,
	"keys":     rates("tipcache_proxy_key_requests_total", "key"),

	"memory":      total("tipcache_cache_memory_bytes"), // cached entries
	"entries":     total("tipcache_cache_memory_entries"),
	"evictions":   rate("tipcache_cache_evictions_total"),
	"resident":    total("process_resident_memory_bytes"),
	"heap":        total("go_memstats_heap_inuse_bytes"),
	"cpu":         rate("process_cpu_seconds_total"), // cores in use
	"goroutines":  total("go_goroutines"),
	"connections": func(d since) any { return d.now.ofListeners("connections") },
	"rpc":         total("tipcache_rpc_connections"),
	"sockets":     total("tipcache_rpc_sockets"), // WebSockets, which rpc includes
	"grpc":        total("tipcache_grpc_connections"),
	"waiting":     total("tipcache_cache_waiting"), // callers that wait for upstreams

	"redis_time":   quantile(redisSeconds, 0.5),
	"redis_rate":   rate(redisSeconds),
	"redis_errors": rate("tipcache_cache_shared_errors_total"),
	"store_time":   quantile(storeSeconds, 0.5),
	"store_rate":   rate(storeSeconds),
	"provider":     rates("tipcache_metadata_requests_total", "outcome"),
	"logs":         rate("tipcache_indexer_logs_total"), // indexed events
}

func total(metric string) func(since) any {
	return func(d since) any { return d.now.total(metric) }
}

func increased(metric string) func(since) any {
	return func(d since) any { return max(0, d.now.total(metric)-d.before.total(metric)) }
}

func rate(metric string) func(since) any {
	return func(d since) any { return max(0, d.now.total(metric)-d.before.total(metric)) / d.seconds }
}

func rates(metric, label string) func(since) any {
	return func(d since) any {
		rates := d.increase(metric, label, valueOf)
		for value := range rates {
			rates[value] /= d.seconds
		}
		return rates
	}
}

func quantile(metric string, q float64) func(since) any {
	return func(d since) any { return d.added(metric).quantile(q) }
}

// since compares the metrics of two moments.
type since struct {
	now, before families
	seconds     float64
}

// sample returns all figures as JSON, with the Unix time in milliseconds.
func (d since) sample(at time.Time) json.RawMessage {
	s := map[string]any{"at": at.UnixMilli()}
	for name, figure := range figures {
		s[name] = figure(d)
	}
	text, _ := json.Marshal(s) // cannot fail
	return text
}

// increase returns the growth of the metrics of a name, by the values of a label.
func (d since) increase(name, label string, value func(*dto.Metric) float64) map[string]float64 {
	before, gained := d.before.by(name, label, value), d.now.by(name, label, value)
	for value := range gained {
		gained[value] = max(0, gained[value]-before[value])
	}
	return gained
}

// added returns the observations between the moments.
func (d since) added(name string) distribution {
	return d.now.distribution(name).since(d.before.distribution(name))
}

func (d since) hits() any {
	requests := d.increase("tipcache_cache_requests_total", "outcome", valueOf)
	return requests["hit"] + requests["stale"]
}

// nodeGauges are the metrics of a node, by their names in JSON.
var nodeGauges = map[string]string{
	"in_flight": "tipcache_node_in_flight",
	"limit":     "tipcache_node_limit", // maximum of in_flight; if it adapts, requests for single items count half
	"queue":     "tipcache_node_queue_length",
	"wait":      "tipcache_node_expected_wait_seconds", // of a new request
	"lag":       "tipcache_node_lag_blocks",
}

// nodes returns the gauges of each node, the rate of its requests, and their mean duration in seconds.
func (d since) nodes() any {
	answers := d.increase(nodeSeconds, "node", valueOf)
	took := d.increase(nodeSeconds, "node", func(m *dto.Metric) float64 { return m.GetHistogram().GetSampleSum() })
	nodes := map[string]map[string]float64{}
	for name := range d.now.by(nodeGauges["in_flight"], "node", valueOf) {
		nodes[name] = map[string]float64{"rate": answers[name] / d.seconds, "mean": took[name] / max(answers[name], 1)}
		for figure, metric := range nodeGauges {
			nodes[name][figure] = d.now.by(metric, "node", valueOf)[name]
		}
	}
	return nodes
}

// routeTotals count the requests of a route since the process began.
type routeTotals struct {
	requests, hits  float64
	seconds, waited float64 // durations of all requests, and of the misses
}

func routesOf(all families) map[string]routeTotals {
	routes := map[string]routeTotals{}
	for _, m := range all[requestSeconds].GetMetric() {
		name, n, sum := labelOf(m, "route"), float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
		r := routes[name]
		r.requests, r.seconds = r.requests+n, r.seconds+sum
		if outcome := labelOf(m, "outcome"); outcome == "hit" || outcome == "stale" {
			r.hits += n
		} else {
			r.waited += sum
		}
		routes[name] = r
	}
	return routes
}
