package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// latency estimates how long reads of origins without a [Queue] take: the smoothed duration of recent flights in
// nanoseconds, with their waits for other replicas' leases.
type latency struct {
	mean    atomic.Int64
	changed atomic.Int64 // when mean was last changed, in Unix nanoseconds
	reading atomic.Int64 // reads in progress

	mu    sync.Mutex
	ended time.Time    // last end of a read while others were in progress
	gap   atomic.Int64 // time between two ends while reads were in progress
}

const (
	meanLifetime = 5 * time.Second     // how long a mean is used, because a slow origin may recover
	initialMean  = defaultPatience / 8 // used while there is no recent mean
)

// expected returns how long one more read will take: as long as recent ones, or until all earlier ones have ended.
func (l *latency) expected() time.Duration {
	return max(l.recentMean(), time.Duration(l.reading.Load()*l.gap.Load()))
}

// recentMean returns the mean if it is recent, and otherwise initialMean.
func (l *latency) recentMean() time.Duration {
	if time.Since(time.Unix(0, l.changed.Load())) > meanLifetime {
		return initialMean
	}
	return time.Duration(l.mean.Load())
}

// learn adds one read to the mean.
func (l *latency) learn(took time.Duration) {
	l.mean.Store(int64(l.recentMean()))
	smooth(&l.mean, took)
	l.changed.Store(time.Now().UnixNano())
}

// begin counts a read; end ends it.
func (l *latency) begin() { l.reading.Add(1) }

func (l *latency) end(now time.Time, most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended.IsZero() {
		smooth(&l.gap, min(now.Sub(l.ended), most))
	}
	if l.ended = now; l.reading.Add(-1) == 0 {
		l.ended = time.Time{}
	}
}

// observe records how long a flight took that read the origin. A longer time counts as most, so that an origin that
// recovers is used again soon. A failure counts only if it took longer than recent successes.
func (l *latency) observe(took, most time.Duration, of flightResult, err error) {
	if errors.Is(err, ErrYielded) {
		return
	}
	if err == nil && of.store == fromOrigin || err != nil && took > l.recentMean() {
		l.learn(min(took, most))
	}
}

func smooth(mean *atomic.Int64, sample time.Duration) { mean.Add((int64(sample) - mean.Load()) / 8) }
