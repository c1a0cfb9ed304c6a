package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
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
	var all sync.WaitGroup
	for i, m := range c {
		all.Go(func() {
			<-start
			outcomes[i].Response, outcomes[i].Err = m.Get(ctx, path)
		})
	}
	time.Sleep(10 * time.Millisecond) // all are at the line by then
	close(start)
	all.Wait()
	return outcomes
}

// Each has every path asked for once, by whichever client is free.
func (c Crowd) Each(ctx context.Context, paths []string) []Outcome {
	outcomes, next := make([]Outcome, len(paths)), make(chan int)
	var all sync.WaitGroup
	for _, m := range c {
		all.Go(func() {
			for i := range next {
				outcomes[i].Response, outcomes[i].Err = m.Get(ctx, paths[i])
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	all.Wait()
	return outcomes
}
