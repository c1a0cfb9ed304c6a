package admin

import (
	"cmp"
	"maps"
	"slices"
)

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
