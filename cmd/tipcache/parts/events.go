package parts

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/node"
)

// Events returns the options of a feed that reads events from the nodes of a pool.
func Events(pool *node.Pool, memory *account.Account, log *slog.Logger, registerer prometheus.Registerer) events.Options {
	return events.Options{Heights: pool, Memory: memory, Logger: log, Registerer: registerer, Nodes: func() (all []events.Node) {
		for _, c := range pool.CometBFT() {
			all = append(all, events.Node{Name: c.Name(), Fit: func() bool { return c.Fit() && c.NoEvents() == nil }, NoEvents: c.NoEvents, Call: c.Call, Subscribe: func(ctx context.Context, query string) (events.Stream, error) {
				return c.Subscribe(ctx, query, events.MaxMessage)
			}})
		}
		return all
	}}
}
