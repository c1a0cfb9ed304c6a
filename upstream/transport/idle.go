package transport

import (
	"slices"
	"sync"
	"time"
)

// idle are the connections that no request uses, the newest last.
type idle struct {
	most  int
	limit time.Duration

	mu    sync.Mutex
	conns []*conn
	timer *time.Timer // nil while there are no connections
}

// take returns the connection that was used last and is still open, or nil.
func (i *idle) take() *conn {
	for {
		c := i.pop()
		if c == nil || isOpen(c.raw) {
			return c
		}
		_ = c.Close()
	}
}

func (i *idle) pop() *conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.conns) - 1
	if last < 0 {
		return nil
	}
	c := i.conns[last]
	i.conns[last] = nil
	i.conns = i.conns[:last]
	return c
}

// put keeps a connection for later requests, if there is room.
func (i *idle) put(c *conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.conns) >= i.most {
		_ = c.Close()
		return
	}
	c.since = time.Now()
	i.conns = append(i.conns, c)
	if i.timer == nil {
		i.timer = time.AfterFunc(i.limit, i.expire)
	}
}

// expire closes the connections that were idle for too long.
func (i *idle) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := 0
	for ; old < len(i.conns) && time.Since(i.conns[old].since) >= i.limit; old++ {
		_ = i.conns[old].Close()
	}
	i.conns = slices.Delete(i.conns, 0, old)
	if len(i.conns) == 0 {
		i.timer = nil
		return
	}
	i.timer.Reset(i.limit - time.Since(i.conns[0].since))
}

func (i *idle) closeAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.conns {
		_ = c.Close()
	}
	i.conns = nil
}
