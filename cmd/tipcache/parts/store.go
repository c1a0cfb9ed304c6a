// Package parts creates parts that several commands share from a valid configuration: the collection store (store.go), the
// logs (logs.go) and the metrics of the process (version.go).
package parts

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
)

// OpenStore opens the collection store. Responses are reserved in memory; nil means no limit.
func OpenStore(ctx context.Context, cfg config.Config, memory *account.Part, log *slog.Logger, registry prometheus.Registerer) (*collections.Store, error) {
	o := collections.Options{Settings: cfg.Collections.Settings, Memory: memory, Logger: log, Registerer: registry}
	return drivers.Open(ctx, cfg.Collections.Store, o)
}
