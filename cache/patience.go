package cache

import (
	"sync/atomic"
	"time"
)

// A caller who could be given a stale entry waits a moment for a newer one: as
// long as that is likely to come soon.
const (
	momentReads  = 8                     // the moment is so many times what reads took lately
	leastMoment  = 20 * time.Millisecond // for what reads do not take, but a busy machine does
	errorFactor  = 10                    // patience where the entry is kept for errors only
	kindsOfReads = 8
)

// latency is how long the origin took lately to answer reads of one kind, as the
// flights that asked it saw that: in nanoseconds, smoothed.
type latency struct{ mean atomic.Int64 }

// newLatencies are such that callers wait as long as they may, until it is known
// better.
func newLatencies(patience time.Duration) *[kindsOfReads]latency {
	var all [kindsOfReads]latency
	for i := range all {
		all[i].mean.Store(int64(patience / momentReads))
	}
	return &all
}

// observe counts no read as longer than most, so that a slow origin is found
// well again soon after it is.
func (l *latency) observe(took, most time.Duration) {
	l.mean.Add((int64(min(took, most)) - l.mean.Load()) / 8)
}

// latency is that of the kind of q.
func (c *Cache) latency(q *Query) *latency { return &c.latencies[uint(q.Kind)%kindsOfReads] }

// moment is how long a caller waits for an entry newer than the stale one at
// hand: for one that went stale with the newest block by what reads took lately,
// for an older one as long as there is patience. It is 0 where the origin failed a
// moment ago, where it is slow, and where too many callers wait already.
func (c *Cache) moment(q *Query, at *slot) time.Duration {
	mean := time.Duration(c.latency(q).mean.Load())
	if at.resting(c.o.Now()) || mean > c.o.Patience || c.waiting.Load() >= int64(c.o.MaxWaiters) {
		return 0
	}
	if q.Tip > 0 && q.Tip-at.entry.Height > q.Policy.FreshBlocks+1 {
		return c.o.Patience
	}
	return min(max(momentReads*mean, leastMoment), c.o.Patience)
}

// A wait is how long one caller waits in flights while there is something else
// to give.
type wait struct {
	began  time.Time
	moment time.Duration // where that is stale
	errors time.Duration // where it is kept for errors
}

func (c *Cache) newWait(q *Query, at *slot) wait {
	w := wait{began: time.Now(), moment: c.o.Patience, errors: errorFactor * c.o.Patience}
	if at != nil {
		w.moment = c.moment(q, at)
	}
	return w
}

// left is how long the caller still waits with an entry at hand that is in a
// state.
func (w wait) left(s State) time.Duration {
	if s <= Stale {
		return w.moment - time.Since(w.began)
	}
	return w.errors - time.Since(w.began)
}

// giveUp notes that a caller has waited in vain, so that others do not.
func (c *Cache) giveUp(at *slot, q *Query, own bool) {
	at.fail(c.o.Now(), errSlow)
	if own {
		c.latency(q).observe(2*c.o.Patience, 2*c.o.Patience)
	}
}
