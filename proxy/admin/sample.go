package admin

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// The metrics that are drawn more than once. Each is registered by the package that
// it tells of.
const (
	requestSeconds = "tipcache_proxy_request_duration_seconds"
	requestsTotal  = "tipcache_proxy_requests_total"
	nodeSeconds    = "tipcache_node_request_duration_seconds"
	redisSeconds   = "tipcache_cache_shared_duration_seconds"
	storeSeconds   = "tipcache_collections_list_duration_seconds"
	staleness      = "tipcache_proxy_staleness_blocks"
)

// figures are what a sample tells of the process at one moment, by their names in
// JSON. Rates are per second since the sample before, and times are in seconds: null
// where nothing was timed.
var figures = map[string]func(since) any{
	"tip":      total("tipcache_node_tip_height"),             // newest block; 0: none known
	"interval": total("tipcache_node_block_interval_seconds"), // between two blocks, as learned
	"answers":  rates(requestsTotal, "outcome"),
	"hits":     since.hits,
	"calls":    rate("tipcache_cache_origin_calls_total"),              // reads of nodes and store
	"renewals": rate("tipcache_cache_renewals_total"),                  // keys that took a newer answer into memory
	"ahead":    rates("tipcache_cache_read_ahead_total", "result"),     // keys to be read when a block came
	"behind":   func(d since) any { return d.added(staleness).counts }, // answers by blocks behind the tip, for each of the bounds
	"p50":      quantile(requestSeconds, 0.5),
	"p99":      quantile(requestSeconds, 0.99),
	"nodes":    since.nodes,

	"memory":      total("tipcache_cache_memory_bytes"), // of cached answers
	"entries":     total("tipcache_cache_memory_entries"),
	"evictions":   rate("tipcache_cache_evictions_total"),
	"resident":    total("process_resident_memory_bytes"),
	"heap":        total("go_memstats_heap_inuse_bytes"),
	"cpu":         rate("process_cpu_seconds_total"), // cores in use
	"goroutines":  total("go_goroutines"),
	"connections": func(d since) any { return d.now.ofListeners("connections") },
	"rpc":         total("tipcache_rpc_connections"),
	"sockets":     total("tipcache_rpc_sockets"), // WebSockets, which are among those
	"grpc":        total("tipcache_grpc_connections"),
	"waiting":     total("tipcache_cache_waiting"), // callers that wait for origins

	"redis_time":   quantile(redisSeconds, 0.5),
	"redis_rate":   rate(redisSeconds),
	"redis_errors": rate("tipcache_cache_shared_errors_total"),
	"store_time":   quantile(storeSeconds, 0.5),
	"store_rate":   rate(storeSeconds),
	"provider":     rates("tipcache_metadata_requests_total", "outcome"),
	"logs":         rate("tipcache_indexer_logs_total"), // events indexed
}

func total(metric string) func(since) any {
	return func(d since) any { return d.now.total(metric) }
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

// sample is all figures as JSON, with the Unix time in milliseconds.
func (d since) sample(at time.Time) json.RawMessage {
	s := map[string]any{"at": at.UnixMilli()}
	for name, figure := range figures {
		s[name] = figure(d)
	}
	text, _ := json.Marshal(s) // cannot fail
	return text
}

// increase is what the metrics of a name have gained, by the values of a label.
func (d since) increase(name, label string, value func(*dto.Metric) float64) map[string]float64 {
	before, gained := d.before.by(name, label, value), d.now.by(name, label, value)
	for of := range gained {
		gained[of] = max(0, gained[of]-before[of])
	}
	return gained
}

// added is what was observed between the moments.
func (d since) added(name string) distribution {
	return d.now.distribution(name).since(d.before.distribution(name))
}

// hits is the share of the cache's answers that were at hand; null: it was not asked.
func (d since) hits() any {
	asked := d.increase("tipcache_cache_requests_total", "outcome", valueOf)
	all := 0.0
	for _, n := range asked {
		all += n
	}
	if all == 0 {
		return nil
	}
	return (asked["hit"] + asked["stale"]) / all
}

// A nodeSample is one node.
type nodeSample struct {
	Rate     float64 `json:"rate"`
	Mean     float64 `json:"mean"` // seconds of an answer; 0: there was none
	InFlight float64 `json:"in_flight"`
	Limit    float64 `json:"limit"` // of what is in flight; of lists, where it adapts
	Queue    float64 `json:"queue"`
	Wait     float64 `json:"wait"` // seconds, as expected of a request that comes now
	Lag      float64 `json:"lag"`  // blocks
}

func (d since) nodes() any {
	answers, took := d.increase(nodeSeconds, "node", valueOf), d.increase(nodeSeconds, "node", secondsOf)
	inFlight := d.now.by("tipcache_node_in_flight", "node", valueOf)
	limit, queue := d.now.by("tipcache_node_limit", "node", valueOf), d.now.by("tipcache_node_queue_length", "node", valueOf)
	wait, lag := d.now.by("tipcache_node_expected_wait_seconds", "node", valueOf), d.now.by("tipcache_node_lag_blocks", "node", valueOf)
	nodes := map[string]nodeSample{}
	for name := range inFlight {
		n := nodeSample{Rate: answers[name] / d.seconds, InFlight: inFlight[name], Limit: limit[name], Queue: queue[name], Wait: wait[name], Lag: lag[name]}
		if n.Rate > 0 {
			n.Mean = took[name] / answers[name]
		}
		nodes[name] = n
	}
	return nodes
}

// routeTotals count the requests of a route since the process began.
type routeTotals struct {
	requests, hits  float64
	seconds, waited float64 // of all requests, and of the misses
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

// A routeSummary is a route in the time that samples are kept for.
type routeSummary struct {
	Name string  `json:"name"`
	Rate float64 `json:"rate"`
	Hits float64 `json:"hits"` // share
	Mean float64 `json:"mean"` // seconds of an answer
	Miss float64 `json:"miss"` // seconds of an answer that was not at hand; 0: there was none
}

// summarize compares two moments, the busiest route first.
func summarize(from, to *moment) []routeSummary {
	seconds := max(to.at.Sub(from.at).Seconds(), interval.Seconds())
	all := []routeSummary{}
	for _, name := range slices.Sorted(maps.Keys(to.routes)) {
		a, b := from.routes[name], to.routes[name]
		n, hits := b.requests-a.requests, b.hits-a.hits
		if n <= 0 {
			continue
		}
		r := routeSummary{Name: name, Rate: n / seconds, Hits: hits / n, Mean: (b.seconds - a.seconds) / n}
		if n > hits {
			r.Miss = (b.waited - a.waited) / (n - hits)
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b routeSummary) int { return cmp.Compare(b.Rate, a.Rate) })
	return all
}
