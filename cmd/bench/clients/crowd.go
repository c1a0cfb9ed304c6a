package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Crowd is clients with one open connection each.
type Crowd []*Conn

// An Outcome is what one client got.
type Outcome struct {
	Response
	Err error
}

// NewCrowd has n clients before a server.
func NewCrowd(addr string, n int) Crowd {
	c := make(Crowd, n)
	for i := range c {
		c[i] = &Conn{Addr: addr}
	}
	return c
}

// Close closes all connections.
func (c Crowd) Close() {
	for _, m := range c {
		m.Close()
	}
}

// All has every client do something at the same time, and returns the first error.
func (c Crowd) All(do func(i int, m *Conn) error) error {
	var all errgroup.Group
	for i, m := range c {
		all.Go(func() error { return do(i, m) })
	}
	return all.Wait()
}

// Gather connects those who are not connected and has each ask for a path, which
// the server knows by then.
func (c Crowd) Gather(ctx context.Context, path string) error {
	for _, m := range c {
		if r, err := m.Get(ctx, path); err != nil || r.Status != http.StatusOK {
			return fmt.Errorf("%s%s: status %d: %w", m.Addr, path, r.Status, err)
		}
	}
	return nil
}

// Rush has all clients ask for one path at the same moment.
func (c Crowd) Rush(ctx context.Context, path string) []Outcome {
	outcomes, start := make([]Outcome, len(c)), make(chan struct{})
	time.AfterFunc(10*time.Millisecond, func() { close(start) }) // all are at the line by then
	_ = c.All(func(i int, m *Conn) error {
		<-start
		outcomes[i].Response, outcomes[i].Err = m.Get(ctx, path)
		return nil
	})
	return outcomes
}

// Each has every path asked for once, by whichever client is free.
func (c Crowd) Each(ctx context.Context, paths []string) []Outcome {
	outcomes := make([]Outcome, len(paths))
	var next atomic.Int64
	_ = c.All(func(_ int, m *Conn) error {
		for i := next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
			outcomes[i].Response, outcomes[i].Err = m.Get(ctx, paths[i])
		}
		return nil
	})
	return outcomes
}
