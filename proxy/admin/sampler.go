package admin

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// How often samples are taken, and how many are kept: ten minutes of them. To
// gather the metrics takes a millisecond or two.
const (
	interval = 2 * time.Second
	kept     = 300
)

// A sampler keeps the last moments, whether a page is open or not: a page that is
// opened after something happened shows it.
type sampler struct {
	gatherer prometheus.Gatherer
	last     families // of the newest moment; only take uses it

	mu      sync.Mutex
	moments []*moment     // the newest last
	next    chan struct{} // closed when there is another
}

// A moment is a sample, and what the next line of the stream tells beside it.
type moment struct {
	at     time.Time
	sample json.RawMessage
	routes map[string]routeTotals
	present
}

// present is what a line of the stream tells of its newest moment alone.
type present struct {
	Bounds  []float64 `json:"bounds"`  // of the buckets of a sample's behind, in blocks; the last one has none
	Started float64   `json:"started"` // Unix time in seconds
	Totals  totals    `json:"totals"`
	Limits  limits    `json:"limits"`
}

// totals are counters as /metrics has them.
type totals struct {
	Requests float64 `json:"requests"`
}

// limits are what gauges may grow to; 0: no limit, or not known.
type limits struct {
	Connections float64 `json:"connections"`
	Memory      float64 `json:"memory"`
}

func newSampler(g prometheus.Gatherer) *sampler {
	return &sampler{gatherer: g, next: make(chan struct{})}
}

// sample adds a moment. Its calls do not overlap.
func (s *sampler) sample(at time.Time) {
	all := gather(s.gatherer)
	m := &moment{at: at, routes: routesOf(all), present: present{
		Bounds: all.distribution(staleness).bounds, Started: all.total("process_start_time_seconds"), Totals: totals{all.total(requestsTotal)},
		Limits: limits{all.ofListeners("connections_limit"), all.total("tipcache_cache_memory_limit_bytes")},
	}}
	changes := since{all, all, interval.Seconds()}
	if before := s.newest(); before != nil {
		changes.before, changes.seconds = s.last, max(at.Sub(before.at).Seconds(), 1e-3)
		if maps.Equal(m.routes, before.routes) {
			m.routes = before.routes // idle processes keep one
		}
	}
	m.sample, s.last = changes.sample(at), all
	s.add(m)
}

func (s *sampler) add(m *moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moments) == kept {
		s.moments = slices.Delete(s.moments, 0, 1)
	}
	s.moments = append(s.moments, m)
	close(s.next)
	s.next = make(chan struct{})
}

// newest is nil before the first moment.
func (s *sampler) newest() *moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moments) == 0 {
		return nil
	}
	return s.moments[len(s.moments)-1]
}

// after returns the moments after a time, and what is closed when there are more.
func (s *sampler) after(t time.Time) ([]*moment, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := slices.IndexFunc(s.moments, func(m *moment) bool { return m.at.After(t) })
	if from < 0 {
		return nil, s.next
	}
	return slices.Clone(s.moments[from:]), s.next
}

// oldest is the first moment kept.
func (s *sampler) oldest() *moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moments[0]
}
