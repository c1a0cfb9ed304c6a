package clients

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/bench/figures"
)

// A Crowd is a group of clients.
type Crowd []*Conn

// NewCrowd returns n clients of a server.
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

// All calls do for every client concurrently, and returns the first error.
func (c Crowd) All(do func(m *Conn) error) error {
	var all errgroup.Group
	for _, m := range c {
		all.Go(func() error { return do(m) })
	}
	return all.Wait()
}

// SendAll makes each client send requests until next returns none, and calls seen for each response, one at a time. A status
// other than 200 is an error, which ends the client.
func (c Crowd) SendAll(ctx context.Context, next func() (request []byte, ok bool), seen func(Response) error) error {
	var mu sync.Mutex
	return c.All(func(m *Conn) error {
		for request, ok := next(); ok; request, ok = next() {
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

// Once gets each of the paths once.
func (c Crowd) Once(ctx context.Context, paths []string, headers ...string) (Loaded, error) {
	requests := make([][]byte, len(paths))
	for i, path := range paths {
		requests[i] = Request(http.MethodGet, path, "", headers...)
	}
	var sent atomic.Int64
	var waits []float64
	began := time.Now()
	err := c.SendAll(ctx, func() ([]byte, bool) {
		i := int(sent.Add(1)) - 1
		return requests[min(i, len(requests)-1)], i < len(requests)
	}, func(r Response) error {
		waits = append(waits, figures.Milliseconds(r.Took))
		return nil
	})
	n := float64(len(requests))
	return Loaded{n, n / time.Since(began).Seconds(), figures.Median(waits), figures.Quantile(waits, 0.99)}, err
}

// Open connects all clients that are not connected.
func (c Crowd) Open(ctx context.Context) error {
	return c.All(func(m *Conn) error { return m.Open(ctx) })
}

// Zipf draws a number below n by Zipf's law with exponent 0.9, which resembles client requests. math/rand requires an
// exponent above 1. It inverts the integral of the law.
func Zipf(n int) int {
	low, high := math.Pow(0.5, 0.1), math.Pow(float64(n)+0.5, 0.1)
	return int(math.Pow(low+(high-low)*rand.Float64(), 10)+0.5) - 1
}
