package admin

import (
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

// A sampler keeps the last moments, whether anybody looks or not: whoever opens
// the page after something happened sees it.
type sampler struct {
	gatherer prometheus.Gatherer

	mu      sync.Mutex
	moments []*moment     // the newest last
	next    chan struct{} // closed when there is another
}

func newSampler(g prometheus.Gatherer) *sampler {
	return &sampler{gatherer: g, next: make(chan struct{})}
}

func (s *sampler) take(at time.Time) {
	all := gather(s.gatherer)
	s.mu.Lock()
	defer s.mu.Unlock()
	var before *moment
	if n := len(s.moments); n > 0 {
		before = s.moments[n-1]
	}
	m := newMoment(all, at, before)
	if before != nil {
		before.all = nil // some hundred kilobytes
	}
	if len(s.moments) == kept {
		s.moments = slices.Delete(s.moments, 0, 1)
	}
	s.moments = append(s.moments, m)
	close(s.next)
	s.next = make(chan struct{})
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
