package cache

import "time"

// A caller that could receive a stale entry waits for a newer one if that is likely to arrive within its patience.
const (
	defaultPatience = 100 * time.Millisecond // if the block interval is unknown
	leastPatience   = 20 * time.Millisecond  // because a busy machine also delays the caller, which Loader.Expected does not include
	mostPatience    = 500 * time.Millisecond
	errorPatience   = time.Second // if the entry is kept only for errors
)

// Patience returns how long a caller waits for a newer block than the cached one: the configured value, or, if that is 0, a
// quarter of the block interval, from 20 to 500 ms. If the interval is unknown (0), it is 100 ms.
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

// expected returns how long a caller with a cached entry is likely to wait for a newer one, 0 if unknown. If a background
// flight is in progress, the caller waits for that.
func (r *request) expected(at *slot) time.Duration {
	if r.from == nil {
		return 0
	}
	return r.from.Expected(at.renewing.Load())
}

func (c *Cache) errorPatience() time.Duration { return max(errorPatience, c.o.Patience) }

// revalidationWait returns how long a caller waits for a newer entry than the stale one. It is 0 if the origin
// failed just now, if no answer is expected in time, or if too many callers wait already.
func (r *request) revalidationWait(at *slot) time.Duration {
	patience := r.c.patience(&r.q)
	if at.failedRecently(r.c.o.Now()) || r.expected(at) > patience || r.c.waiters.Free(1) == 0 {
		return 0
	}
	return patience
}

// wait limits how long one caller waits in flights while another entry can be served.
type wait struct {
	began  time.Time
	stale  time.Duration // if that entry is stale
	errors time.Duration // if it is kept for errors

	forFlight bool // only the flight's result can be served
}

func (r *request) newWait(at *slot) wait {
	return wait{began: time.Now(), stale: r.c.patience(&r.q), errors: r.c.errorPatience(), forFlight: at == nil}
}

// left returns how long the caller still waits with an entry in a state.
func (w wait) left(s State) time.Duration {
	if s <= Stale {
		return w.stale - time.Since(w.began)
	}
	return w.errors - time.Since(w.began)
}
