// Package connect checks the upstreams and listeners of a configuration.
package connect

import (
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
	find          func(context.Context) (found string, err error)
}

// Check probes all parts that serve would use, and prints the results. The error has the number of
// failed parts.
func Check(ctx context.Context, cfg config.Config, w io.Writer) error {
	probes := probesOf(cfg)
	lines := make([]string, len(probes))
	var (
		all                sync.WaitGroup
		configured, failed atomic.Int32
	)
	for i, p := range probes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			found, err := p.find(ctx)
			if !isOff(err) {
				configured.Add(1)
				if err != nil {
					failed.Add(1)
				}
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
	return fmt.Errorf("%d of %d parts failed", failed.Load(), configured.Load())
}

func outcome(found string, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "FAILED: no answer in time"
	case isOff(err):
		return "off: " + err.Error()
	case err != nil:
		return "FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return "ok: " + found
}

// off is the error of a part that is not configured. It does not count as a failure.
type off string

func (o off) Error() string { return string(o) }

func isOff(err error) bool { return errors.As(err, new(off)) }

// absent returns the probe of a part that is not configured.
func absent(part, text string) probe {
	return probe{part, "none", func(context.Context) (string, error) { return "", off(text) }}
}

func probesOf(cfg config.Config) []probe {
	probes := localProbes(cfg)
	endpoints := cfg.NodeOptions().Endpoints
	for i, e := range endpoints {
		probes = append(probes, probe{"node", config.Host(e.REST), func(ctx context.Context) (string, error) { return findNode(ctx, cfg, i) }})
	}
	for _, e := range endpoints {
		if e.Comet != "" {
			probes = append(probes, probe{"comet", config.Host(e.Comet), func(ctx context.Context) (string, error) { return findComet(ctx, cfg, e) }})
		}
	}
	if len(cfg.Chain.Nodes) > 0 && !cfg.ReadsGRPC() && (cfg.RPC.Listen != "" || cfg.GRPC.Listen != "") {
		probes = append(probes, absent("grpc", "chain.grpc is not set: state is read by abci_query, during which a node makes no blocks. gRPC methods that neither read state nor exist in the RPC are refused"))
	}
	for _, e := range endpoints {
		if e.GRPC != "" {
			probes = append(probes, probe{"grpc", e.GRPC, func(ctx context.Context) (string, error) { return findGRPC(ctx, cfg, e) }})
		}
	}
	if cfg.Redis.URL != "none" {
		probes = append(probes, probe{"redis", config.Host(cfg.Redis.URL), func(ctx context.Context) (string, error) { return findRedis(ctx, cfg.Redis) }})
	}
	if !strings.HasPrefix(cfg.Collections.Store, "sqlite:") && cfg.NeedsStore() {
		probes = append(probes, storeProbe(cfg))
	}
	if cfg.Metadata.Provider != "none" {
		probes = append(probes, probe{"provider", config.Host(cfg.Metadata.Provider), func(ctx context.Context) (string, error) { return findProvider(ctx, cfg) }})
	}
	if cfg.Index.Enabled {
		for _, client := range cfg.Index.EVM {
			probes = append(probes, probe{"execution", config.Host(client), func(ctx context.Context) (string, error) { return findExecution(ctx, cfg, client) }})
		}
	}
	return probes
}
