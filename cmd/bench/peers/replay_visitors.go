package peers

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// visits are visitors of one server and what they saw of it.
type visits struct {
	clients clients.Crowd
	owners  []string

	mu           sync.Mutex
	took, visits []float64 // milliseconds, of requests that were answered and of whole visits
	failed       int
}

// round has each visitor come so often, at times of its own.
func (v *visits) round(ctx context.Context, times int) {
	_ = v.clients.All(func(i int, c *clients.Conn) error {
		paths := walletVisit(v.owners[i])
		if i%2 == 1 {
			paths = explorerVisit()
		}
		next := time.Now().Add(rand.N(visitEvery))
		for range times {
			if !rig.Pause(ctx, time.Until(next)) {
				break
			}
			v.visit(ctx, c, paths)
			next = next.Add(visitEvery)
		}
		return nil // what fails is counted
	})
}

// visit asks one thing after another.
func (v *visits) visit(ctx context.Context, c *clients.Conn, paths []string) {
	began, block, failed := time.Now(), "1", 0
	var took []float64
	for _, path := range paths {
		sent := time.Now()
		a, err := c.Get(ctx, pathAt(path, block))
		if err != nil || a.Status != http.StatusOK {
			failed++
			continue
		}
		took = append(took, figures.Milliseconds(time.Since(sent)))
		if path == newestBlock {
			block = gjson.GetBytes(a.Body, "block.header.height").String()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.took, v.failed = append(v.took, took...), v.failed+failed
	v.visits = append(v.visits, figures.Milliseconds(time.Since(began)))
}

// row is of the CPU time that the node and the server, if there is one, have spent.
func (v *visits) row(name string, asked, common int64, spent []time.Duration) []string {
	server := ""
	if len(spent) > 1 {
		server = figures.Decimal(spent[1].Seconds())
	}
	return figures.Row(name, len(v.took)+v.failed, v.failed, asked, common, spent[0].Seconds(), server,
		figures.Median(v.took), figures.Quantile(v.took, 0.99), figures.Quantile(v.visits, 0.99))
}
