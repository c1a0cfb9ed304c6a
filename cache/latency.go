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
	seen   atomic.Int64 // when mean changed last, in Unix nanoseconds
	asking atomic.Int64 // reads that have not been answered yet

	mu    sync.Mutex
	ended time.Time    // the last answer, if reads were waiting then
	gap   atomic.Int64 // between two answers while reads were waiting
}

const (
	remembered   = 5 * time.Second     // how long a mean counts: an origin that was slow then may have recovered since
	quickAtFirst = defaultPatience / 8 // the mean where none counts
)

// expected is how long one more read will take: as long as others did lately, or until
// all those have been answered that came before it.
func (l *latency) expected() time.Duration {
	return max(l.lately(), time.Duration(l.asking.Load()*l.gap.Load()))
}

// lately is the mean of the reads within the time that is remembered.
func (l *latency) lately() time.Duration {
	if time.Since(time.Unix(0, l.seen.Load())) > remembered {
		return quickAtFirst
	}
	return time.Duration(l.mean.Load())
}

// learn smooths the mean by one read.
func (l *latency) learn(took time.Duration) {
	l.mean.Store(int64(l.lately()))
	smooth(&l.mean, took)
	l.seen.Store(time.Now().UnixNano())
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
	if err == nil && of.store == fromOrigin || err != nil && took > l.lately() {
		l.learn(min(took, most))
	}
}

func smooth(mean *atomic.Int64, sample time.Duration) { mean.Add((int64(sample) - mean.Load()) / 8) }
