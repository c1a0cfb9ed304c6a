package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// A caller who could be given a stale entry waits for a newer one, as long as that is
// likely to come within the patience of callers.
const (
	defaultPatience = 100 * time.Millisecond // where no block's time is known
	leastPatience   = 20 * time.Millisecond  // for what reads do not take, but a busy machine does
	mostPatience    = 500 * time.Millisecond
	errorPatience   = time.Second // where the entry is kept for errors only
	kindsOfReads    = 8
)

// Patience is how long a caller waits for a newer block than the one at hand: what is
// set, or if that is 0 a quarter of a block's time, 500 ms at most. An interval of 0 is
// unknown.
func Patience(set, interval time.Duration) time.Duration {
	switch {
	case set > 0:
		return set
	case interval <= 0:
		return defaultPatience
	default:
		return min(max(interval/4, leastPatience), mostPatience)
	}
}

func (c *Cache) patience(q *Query) time.Duration { return Patience(c.o.Patience, q.Interval) }

// latency is how long the origin took lately to answer reads of one kind, as the
// flights that asked it saw that: in nanoseconds, smoothed.
type latency struct {
	mean   atomic.Int64
	asking atomic.Int64 // reads that have not been answered yet

	mu    sync.Mutex
	ended time.Time    // the last answer, if reads were waiting then
	gap   atomic.Int64 // between two answers while reads were waiting
}

// observe counts no read as longer than most, so that a slow origin is found
// well again soon after it is.
func (l *latency) observe(took, most time.Duration) { smooth(&l.mean, min(took, most)) }

func smooth(mean *atomic.Int64, sample time.Duration) { mean.Add((int64(sample) - mean.Load()) / 8) }

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

// expected is how long one more read will take: as long as others did lately, or until
// all those have been answered that came before it.
func (l *latency) expected() time.Duration {
	return time.Duration(max(l.mean.Load(), l.asking.Load()*l.gap.Load()))
}

// A Queue is where the reads of an origin wait for their turns. It is safe for concurrent use.
type Queue interface {
	// Expected is how long a read that begins now is likely to take, the wait for its
	// turn included; in the background it yields to reads that callers wait for.
	Expected(background bool) time.Duration
}

// expected is how long a caller with an entry at hand is likely to wait for a newer one:
// as long as the origin's queue says, else by what reads took. It waits for a flight in
// the background where that is under way.
func (c *Cache) expected(q *Query, at *slot) time.Duration {
	if q.Queue == nil {
		return c.latency(q).expected()
	}
	return q.Queue.Expected(at.renewing.Load())
}

// hopeless tells whether a caller whose entry is kept for errors would wait longer for a
// newer one than it has patience, and be given that entry then.
func (c *Cache) hopeless(q *Query, at *slot) bool {
	return c.expected(q, at) > c.errorPatience()
}

func (c *Cache) errorPatience() time.Duration { return max(errorPatience, c.o.Patience) }

// latency is that of the kind of q.
func (c *Cache) latency(q *Query) *latency { return &c.latencies[uint(q.LatencyClass)%kindsOfReads] }

// revalidationWait is how long a caller waits for an entry newer than the stale one at hand. It
// is 0 where the origin failed a moment ago, where an answer is not expected in time, and
// where too many callers wait already.
func (c *Cache) revalidationWait(q *Query, at *slot) time.Duration {
	patience := c.patience(q)
	if at.resting(c.o.Now()) || c.expected(q, at) > patience || c.waiting.Load() >= int64(c.o.MaxWaiters) {
		return 0
	}
	return patience
}

// A wait is how long one caller waits in flights while there is something else
// to give.
type wait struct {
	began  time.Time
	stale  time.Duration // where that is stale
	errors time.Duration // where it is kept for errors
}

func (c *Cache) newWait(q *Query, at *slot) wait {
	w := wait{began: time.Now(), stale: c.patience(q), errors: c.errorPatience()}
	if at != nil {
		w.stale = c.revalidationWait(q, at)
	}
	return w
}

// left is how long the caller still waits with an entry at hand that is in a
// state.
func (w wait) left(s State) time.Duration {
	if s <= Stale {
		return w.stale - time.Since(w.began)
	}
	return w.errors - time.Since(w.began)
}

// giveUp notes that a caller has waited in vain, so that others do not.
func (c *Cache) giveUp(at *slot, q *Query, own bool) {
	at.fail(c.o.Now(), errSlow)
	if own {
		c.latency(q).observe(2*c.patience(q), 2*c.patience(q))
	}
}
