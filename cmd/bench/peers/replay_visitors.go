package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
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

func newVisits(addr string, owners []string) *visits {
	return &visits{clients: clients.NewCrowd(addr, visitors), owners: owners}
}

func (v *visits) close() { v.clients.Close() }

// round has each visitor come so often, at times of its own.
func (v *visits) round(ctx context.Context, times int) {
	var all sync.WaitGroup
	for i, c := range v.clients {
		all.Go(func() {
			paths := walletVisit(v.owners[i])
			if i%2 == 1 {
				paths = explorerVisit()
			}
			next := time.Now().Add(rand.N(visitEvery))
			for range times {
				if !rig.Pause(ctx, time.Until(next)) {
					return
				}
				v.visit(ctx, c, paths)
				next = next.Add(visitEvery)
			}
		})
	}
	all.Wait()
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

func (v *visits) row(name string, asked []int64, node, server time.Duration) []string {
	own := figures.Decimal(server.Seconds())
	if name == noProxy {
		own = ""
	}
	return slices.Concat([]string{name, fmt.Sprint(len(v.took) + v.failed), fmt.Sprint(v.failed), fmt.Sprint(asked[0]), fmt.Sprint(asked[1]), figures.Decimal(node.Seconds()), own},
		[]string{figures.Decimal(figures.Median(v.took)), figures.Decimal(figures.Quantile(v.took, 0.99)), figures.Decimal(figures.Quantile(v.visits, 0.99))})
}
