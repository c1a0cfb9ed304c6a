package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// latency is how long origins without a [Queue] took lately to answer, as the flights that
// asked them saw that: in nanoseconds, smoothed.
type latency struct {
	mean   atomic.Int64
	asking atomic.Int64 // reads that have not been answered yet

	mu    sync.Mutex
	ended time.Time    // the last answer, if reads were waiting then
	gap   atomic.Int64 // between two answers while reads were waiting
}

// expected is how long one more read will take: as long as others did lately, or until
// all those have been answered that came before it.
func (l *latency) expected() time.Duration {
	return time.Duration(max(l.mean.Load(), l.asking.Load()*l.gap.Load()))
}

// begin notes a read; end notes that it is over.
func (l *latency) begin() { l.asking.Add(1) }

func (l *latency) end(now time.Time, most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended.IsZero() {
		smooth(&l.gap, min(now.Sub(l.ended), most))
	}
	if l.ended = now; l.asking.Add(-1) == 0 {
		l.ended = time.Time{}
	}
}

// observe notes how long a flight took that asked the origin, and counts it as no longer than
// most, so that a slow origin is found well again soon after it is. A failure says nothing of that
// unless it took longer than others do to succeed.
func (l *latency) observe(took, most time.Duration, of flightResult, err error) {
	if errors.Is(err, ErrYielded) {
		return
	}
	if err == nil && of.store == fromOrigin || err != nil && took > time.Duration(l.mean.Load()) {
		smooth(&l.mean, min(took, most))
	}
}

func smooth(mean *atomic.Int64, sample time.Duration) { mean.Add((int64(sample) - mean.Load()) / 8) }
