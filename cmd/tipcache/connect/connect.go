// Package connect checks the upstreams and listeners of a configuration.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/tipcache/tipcache/config"
)

// timeout is the time within which each part must answer.
const timeout = 5 * time.Second

// A probe checks one part of a configuration.
type probe struct {
	part, address string
	find          func(context.Context) (found string, err error) // nil if the part is not configured; err may be a warning
	off           string                                          // consequence if the part is not configured
}

// A warning is a result that an operator should know, but with which serve works.
type warning string

func (w warning) Error() string { return string(w) }

// Check probes the parts that serve would use on this machine and, if reach is true, all others. It prints the results.
// The error has the number of failed parts.
func Check(ctx context.Context, cfg config.Config, reach bool, w io.Writer) error {
	probes, configured := localProbes(cfg, !reach), 0
	if reach {
		probes = append(probes, remoteProbes(cfg)...)
	} else if cfg.Redis.URL != "none" {
		probes = append(probes, probe{part: "redis", address: config.Host(cfg.Redis.URL), find: func(context.Context) (string, error) { return parseRedis(cfg.Redis) }})
	}
	lines := make([]string, len(probes))
	var all sync.WaitGroup
	var failed atomic.Int32
	for i, p := range probes {
		if p.find == nil {
			lines[i] = fmt.Sprintf("  %s\tnone\toff: %s\n", p.part, p.off)
			continue
		}
		configured++
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			found, err := p.find(ctx)
			if err != nil && !isWarning(err) {
				failed.Add(1)
			}
			lines[i] = fmt.Sprintf("  %s\t%s\t%s\n", p.part, p.address, outcome(found, err))
		})
	}
	all.Wait()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, strings.Join(lines, ""))
	if err := tw.Flush(); err != nil || failed.Load() == 0 {
		return err
	}
	return fmt.Errorf("%d of %d parts failed", failed.Load(), configured)
}

func outcome(found string, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "FAILED: no answer in time"
	case isWarning(err):
		return "WARNING: " + err.Error()
	case err != nil:
		return "FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return "ok: " + found
}

func isWarning(err error) bool {
	_, ok := errors.AsType[warning](err)
	return ok
}

// A chain is the chain that all servers of nodes must serve: chain.id, or the first one seen.
type chain struct {
	mu sync.Mutex
	id string
}

// check returns an error if a server serves another chain. An empty id means that the server does not name its chain.
func (c *chain) check(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id = cmp.Or(c.id, id); id != "" && id != c.id {
		return fmt.Errorf("it serves chain %q instead of %q", id, c.id)
	}
	return nil
}

func remoteProbes(cfg config.Config) (probes []probe) {
	endpoints, expected := cfg.NodeOptions().Endpoints, &chain{id: cfg.Chain.ID}
	for _, e := range endpoints {
		probes = append(probes, probe{part: "node", address: config.Host(e.REST), find: func(ctx context.Context) (string, error) { return findNode(ctx, cfg, e, expected) }})
	}
	for _, e := range endpoints {
		if e.Comet != "" {
			probes = append(probes, probe{part: "comet", address: config.Host(e.Comet), find: func(ctx context.Context) (string, error) { return findComet(ctx, cfg, e, expected) }})
		}
	}
	if len(cfg.Chain.Nodes) > 0 && !cfg.ReadsGRPC() && (cfg.RPC.Listen != "" || cfg.GRPC.Listen != "") {
		probes = append(probes, probe{part: "grpc", off: "chain.grpc is not set: state is read by abci_query, during which a node makes no blocks. gRPC methods that neither read state nor exist in the RPC are refused"})
	}
	for _, e := range endpoints {
		if e.GRPC != "" {
			probes = append(probes, probe{part: "grpc", address: e.GRPC, find: func(ctx context.Context) (string, error) { return findGRPC(ctx, e, expected) }})
		}
	}
	if cfg.Redis.URL != "none" {
		probes = append(probes, probe{part: "redis", address: config.Host(cfg.Redis.URL), find: func(ctx context.Context) (string, error) { return findRedis(ctx, cfg.Redis) }})
	}
	if !strings.HasPrefix(cfg.Collections.Store, "sqlite:") && cfg.NeedsStore() {
		probes = append(probes, storeProbe(cfg))
	}
	if cfg.Metadata.Provider != "none" {
		probes = append(probes, probe{part: "provider", address: config.Host(cfg.Metadata.Provider), find: func(ctx context.Context) (string, error) { return findProvider(ctx, cfg) }})
	}
	if cfg.Index.Enabled {
		for _, client := range cfg.Index.EVM {
			probes = append(probes, probe{part: "execution", address: config.Host(client), find: func(ctx context.Context) (string, error) { return findExecution(ctx, cfg, client) }})
		}
	}
	return probes
}
