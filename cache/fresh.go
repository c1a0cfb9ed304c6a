package cache

import "time"

// Fresh answers q as Get would from an entry in memory that is fresh now; ok is
// false where memory has none, and nothing is done about that.
func (c *Cache) Fresh(q Query, now time.Time) (res Result, ok bool) {
	at := c.chain.Load().memory.get(q.Key)
	if q.state(at, now) != Fresh {
		return res, false
	}
	c.counts.served(Hit, inMemory)
	return Result{Entry: at.entry, Outcome: Hit, Store: inMemory}, true
}
