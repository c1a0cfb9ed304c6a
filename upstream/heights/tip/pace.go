package tip

import (
	"slices"
	"time"
)

// A pace learns the time between two blocks as the median of the last samples:
// an absent proposer makes some blocks late, and must not move it.
type pace struct {
	usual   time.Duration // until there are three samples
	samples [15]time.Duration
	count   int
	height  int64
	at      time.Time
}

// The learned interval stays within these.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = 30 * time.Second
)

func (p *pace) advance(height int64, at time.Time) {
	if height <= p.height {
		return
	}
	if p.height > 0 {
		p.samples[p.count%len(p.samples)] = at.Sub(p.at) / time.Duration(height-p.height)
		p.count++
	}
	p.height, p.at = height, at
}

// forget makes the next height the first one; the interval stays.
func (p *pace) forget() { p.height = 0 }

func (p *pace) interval() time.Duration {
	if p.count < 3 {
		return p.usual
	}
	sorted := p.samples
	known := sorted[:min(p.count, len(sorted))]
	slices.Sort(known)
	return min(max(known[len(known)/2], minInterval), maxInterval)
}
