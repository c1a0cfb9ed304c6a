package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// listen serves openPaths until stop is called. An address of none is no
// listener.
func (r *indexRun) listen(ctx context.Context, address string) (stop func() error, err error) {
	if address == "none" {
		return func() error { return nil }, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	server := &http.Server{Handler: newAdminMux(r.registry, r.readyz), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- served(server.Serve(l)) }()
	r.log.Info("telling how far it is", "admin", l.Addr().String())
	return func() error { return errors.Join(server.Close(), <-ended) }, nil
}

// indexReadiness is the body of /readyz of tipcache index. A process that waits
// for its turn is ready.
type indexReadiness struct {
	Ready    bool              `json:"ready"`
	Problems map[string]string `json:"problems"` // by part: store, index
	Index    *indexHealth      `json:"index"`
}

func (r *indexRun) readyz(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), time.Second)
	defer cancel()
	m, err := r.store.Mark(ctx)
	state := indexReadiness{Problems: map[string]string{}, Index: newIndexHealth(&m, r.indexer.Status())}
	if err != nil {
		state.Problems["store"] = err.Error()
	}
	if state.Index.Error != "" {
		state.Problems["index"] = state.Index.Error
	}
	state.Ready = len(state.Problems) == 0
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, state)
}
