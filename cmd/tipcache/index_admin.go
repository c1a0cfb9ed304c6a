package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/proxy/admin"
)

// listen serves health, metrics and the status page until ctx ends. The address none disables it.
func (r *indexRun) listen(ctx context.Context, group *errgroup.Group, address string) error {
	if address == "none" {
		return nil
	}
	l, err := admin.Listen(ctx, address, r.log)
	if err != nil {
		return err
	}
	metrics := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return r.shown.Load().registry.Gather() })
	pages := admin.New(admin.Options{Gatherer: metrics, Ready: r.ready, Version: parts.Version()})
	server := pages.NewServer(parts.ServerLog(r.log))
	group.Go(func() error {
		pages.Run(ctx)
		return server.Close()
	})
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	r.log.Info("serving admin listener", "admin", l.Addr().String())
	return nil
}

// indexReadiness is the body of /readyz of tipcache index. A process that waits for the lock is ready.
type indexReadiness struct {
	Ready    bool                 `json:"ready"`
	Problems map[string]string    `json:"problems"` // by part: store, index
	Index    *service.IndexHealth `json:"index"`
}

func (r *indexRun) ready(ctx context.Context, _ []string) (bool, any) {
	shown := r.shown.Load()
	m, err := shown.store.Mark(ctx)
	state := indexReadiness{Problems: map[string]string{}, Index: service.NewIndexHealth(&m, shown.indexer.Status())}
	if err != nil {
		state.Problems["store"] = err.Error()
	}
	if state.Index.Error != "" {
		state.Problems["index"] = state.Index.Error
	}
	state.Ready = len(state.Problems) == 0
	return state.Ready, state
}
