package cache

import "time"

// A caller who could be given a stale entry waits for a newer one, as long as that is
// likely to come within the patience of callers.
const (
	defaultPatience = 100 * time.Millisecond // where no block's time is known
	leastPatience   = 20 * time.Millisecond  // for what reads do not take, but a busy machine does
	mostPatience    = 500 * time.Millisecond
	errorPatience   = time.Second // where the entry is kept for errors only
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
		return c.reads.expected()
	}
	return q.Queue.Expected(at.renewing.Load())
}

func (c *Cache) errorPatience() time.Duration { return max(errorPatience, c.o.Patience) }

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

	forFlight bool // nothing else can be served than what the flight brings
}

func (c *Cache) newWait(q *Query, at *slot) wait {
	w := wait{began: time.Now(), stale: c.patience(q), errors: c.errorPatience(), forFlight: at == nil}
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
	if own && q.Queue == nil {
		c.reads.learn(2 * c.patience(q))
	}
}
