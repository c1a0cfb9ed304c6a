package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/proxy/admin"
)

// listen serves health, metrics and the status page until stop is called. An address of none is no
// listener.
func (r *indexRun) listen(ctx context.Context, address string) (stop func() error, err error) {
	if address == "none" {
		return func() error { return nil }, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	pages := admin.New(admin.Options{Gatherer: r.registry, Ready: r.ready, Version: parts.Version()})
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	var sampling sync.WaitGroup
	sampling.Go(func() { pages.Run(ctx) })
	r.log.Info("telling how far it is", "admin", l.Addr().String())
	return func() error {
		pages.Close()
		sampling.Wait()
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// indexReadiness is the body of /readyz of tipcache index. A process that waits
// for its turn is ready.
type indexReadiness struct {
	Ready    bool                 `json:"ready"`
	Problems map[string]string    `json:"problems"` // by part: store, index
	Index    *service.IndexHealth `json:"index"`
}

func (r *indexRun) ready(ctx context.Context, _ []string) (bool, any) {
	m, err := r.store.Mark(ctx)
	state := indexReadiness{Problems: map[string]string{}, Index: service.NewIndexHealth(&m, r.indexer.Status())}
	if err != nil {
		state.Problems["store"] = err.Error()
	}
	if state.Index.Error != "" {
		state.Problems["index"] = state.Index.Error
	}
	state.Ready = len(state.Problems) == 0
	return state.Ready, state
}
