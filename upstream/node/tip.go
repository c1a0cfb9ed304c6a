package node

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxRaise is how many blocks a replica may claim to be ahead of this one.
const maxRaise = 1000

// tipState is the newest block over all endpoints. Writers take turns; readers
// never wait.
type tipState struct {
	value atomic.Pointer[Tip]
	mu    sync.Mutex
	pace  pace
}

func newTip(interval time.Duration) *tipState {
	t := &tipState{pace: pace{usual: interval}}
	t.value.Store(&Tip{Interval: interval})
	return t
}

// read is the tip as of now.
func (t *tipState) read() Tip {
	v := *t.value.Load()
	v.Known = v.Height > 0 && time.Since(v.Seen) <= heardFor(v.Interval)
	return v
}

// heardFor is how long a height source's word is good for. The watchdog asks
// after three intervals of silence, so a chain that stands still stays known.
func heardFor(interval time.Duration) time.Duration {
	return max(4*interval, 5*time.Second)
}

// hear notes that a height source named its newest block; header is zero where
// only the height is known. Blocks of a node that catches up come faster than
// the chain makes them, so paced is false for those.
func (t *tipState) hear(height int64, header time.Time, paced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, now := *t.value.Load(), time.Now()
	if paced {
		t.pace.advance(height, now)
	}
	if height > v.Height {
		v.Height, v.Time = height, header
	} else if height == v.Height && v.Time.IsZero() {
		v.Time = header
	}
	v.Seen, v.Interval = now, t.pace.interval()
	t.value.Store(&v)
}

// raise lifts a known tip to a height that another replica has proved to
// exist; a claim too far ahead is ignored. It says whether the tip moved.
func (t *tipState) raise(height int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.read()
	if !v.Known || height <= v.Height || height > v.Height+maxRaise {
		return false
	}
	v.Height, v.Time = height, time.Time{}
	t.value.Store(&v)
	return true
}

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

func (p *pace) interval() time.Duration {
	if p.count < 3 {
		return p.usual
	}
	sorted := p.samples
	known := sorted[:min(p.count, len(sorted))]
	slices.Sort(known)
	return min(max(known[len(known)/2], minInterval), maxInterval)
}

// A beacon wakes everybody who waits for something to move.
type beacon struct {
	mu   sync.Mutex
	next chan struct{}
}

// lit is closed by the next flash. Take it before looking at what may move.
func (b *beacon) lit() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *beacon) flash() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
