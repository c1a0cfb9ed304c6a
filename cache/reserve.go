package cache

// reserveSteps are how many sizes memory may have: it is not fitted for each byte.
const reserveSteps = 64

// MemoryBytes is what entries may weigh, with what is reserved.
func (c *Cache) MemoryBytes() int64 { return c.o.MemoryBytes }

// Reserve sets bytes of the memory bound aside, for answers that others hold: entries
// make room for them. A negative number gives bytes back. It is not ok, and nothing is
// set aside, where more than half of the bound would be.
func (c *Cache) Reserve(bytes int64) (ok bool) {
	now := c.reserved.Add(bytes)
	if bytes > 0 && now > c.o.MemoryBytes/2 {
		c.reserved.Add(-bytes)
		return false
	}
	if c.room(now) != c.room(now-bytes) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.chain.Load().memory.SetMaximum(uint64(c.room(c.reserved.Load())))
	}
	return true
}

// room is what entries may take while so many bytes are reserved.
func (c *Cache) room(reserved int64) int64 {
	step := max(1, c.o.MemoryBytes/reserveSteps)
	return c.o.MemoryBytes - min((reserved+step-1)/step*step, c.o.MemoryBytes/2)
}
