package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync"
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

// Ask has each client send one request after another while next has one for the
// i-th, and calls seen for each answer, one at a time. An answer other than 200 is
// an error, which ends the client.
func (c Crowd) Ask(ctx context.Context, next func(i int) (request []byte, ok bool), seen func(Response) error) error {
	var mu sync.Mutex
	return c.All(func(i int, m *Conn) error {
		for request, ok := next(i); ok; request, ok = next(i) {
			r, err := m.Do(ctx, request)
			if err == nil && r.Status != http.StatusOK {
				err = fmt.Errorf("status %d: %.200s", r.Status, r.Body)
			}
			if err == nil {
				mu.Lock()
				err = seen(r)
				mu.Unlock()
			}
			if err != nil {
				return fmt.Errorf("%.300q: %w", request, err)
			}
		}
		return nil
	})
}

// Gather connects the clients that are not connected and has each ask for a path, which
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
