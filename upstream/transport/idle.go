package transport

import (
	"slices"
	"sync"
	"time"
)

// idle holds the idle connections, the most recently used last.
type idle struct {
	maxConns int
	timeout  time.Duration

	mu    sync.Mutex
	conns []*conn
	timer *time.Timer // nil while there are no connections
}

// take removes and returns the most recently used open connection, or nil.
func (i *idle) take() *conn {
	for {
		c := i.pop()
		if c == nil || c.probe.isOpen() {
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

// put adds a connection, or closes it if there are too many.
func (i *idle) put(c *conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.conns) >= i.maxConns {
		_ = c.Close()
		return
	}
	c.since = time.Now()
	i.conns = append(i.conns, c)
	if i.timer == nil {
		i.timer = time.AfterFunc(i.timeout, i.expire)
	}
}

// expire closes connections that have been idle for too long.
func (i *idle) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := 0
	for ; old < len(i.conns) && time.Since(i.conns[old].since) >= i.timeout; old++ {
		_ = i.conns[old].Close()
	}
	i.conns = slices.Delete(i.conns, 0, old)
	if len(i.conns) == 0 {
		i.timer = nil
		return
	}
	i.timer.Reset(i.timeout - time.Since(i.conns[0].since))
}

func (i *idle) closeAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.conns {
		_ = c.Close()
	}
	i.conns = nil
}
