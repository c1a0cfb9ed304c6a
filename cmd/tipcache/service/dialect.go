package service

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/upstream/node"
)

// detectInterval is the pause between attempts to detect the dialect.
const detectInterval = time.Second

// A Reloading says how the configuration is reloaded. The zero value disables reloads.
type Reloading struct {
	Load   func() (config.Config, error)
	Hangup <-chan os.Signal // receives the signal to reload
}

// openDialect sets chain.dialect to the dialect in which a node answers, unless it is configured. It waits until a node answers,
// because a guess could misread responses. Meanwhile the admin listener says so, and the configuration can be reloaded.
func (s *Service) openDialect(ctx context.Context) error {
	switch {
	case s.cfg.Chain.Dialect != "":
		return nil
	case len(s.cfg.Chain.Nodes) == 0:
		s.cfg.Chain.Dialect = string(node.Story)
		return nil
	}
	for first := true; ; first = false {
		found, err := node.Detect(ctx, s.cfg.NodeOptions().Endpoints)
		if err == nil {
			s.log.Info("detected the dialect of the nodes", "dialect", found)
			s.cfg.Chain.Dialect = string(found)
			return nil
		}
		waiting := "no node has answered, so the dialect of the chain is not known (chain.dialect sets it): " + err.Error()
		if s.waitsFor.Store(&waiting); first {
			s.log.Warn("waiting for a node before clients are served", "admin", s.Addresses.Admin, "error", waiting)
		}
		select {
		case <-time.After(detectInterval):
		case <-s.reloading.Hangup:
			s.reload()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startingState is the body of /readyz while the service waits for a node.
func (s *Service) startingState() Health {
	problems := map[string]string{"node": "starting"}
	if waiting := s.waitsFor.Load(); waiting != nil {
		problems["node"] = *waiting
	}
	none := Addresses{REST: "none", RPC: "none", GRPC: "none", GRPCWeb: "none"}
	return Health{Problems: problems, Degraded: map[string]string{}, Redis: "off", Metadata: "off", Store: "off", Nodes: []nodeHealth{}, Interfaces: none}
}

// onceStarted refuses requests of the admin listener that need parts which do not exist yet.
func (s *Service) onceStarted(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.started.Load() {
			admin.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": s.startingState().Problems["node"]})
			return
		}
		serve(w, r)
	}
}
