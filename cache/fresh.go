package cache

// Fresh answers q as Get would from a fresh entry in memory; ok is false where
// memory has none, and nothing is done about that.
func (c *Cache) Fresh(q Query) (res Result, ok bool) {
	at := c.chain.Load().memory.get(q.Key)
	if q.state(at, c.o.Now()) != Fresh {
		return res, false
	}
	c.counts.served(Hit, inMemory)
	return Result{Entry: at.entry, Outcome: Hit, Store: inMemory}, true
}
