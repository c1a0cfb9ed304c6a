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

// timeout is the time within which the state of all parts must be known.
const timeout = 10 * time.Second

// A probe checks one part of a configuration.
type probe struct {
	part, address string
	find          func(context.Context) (found string, err error) // nil if the part is not configured; err may be a warning
	off           string                                          // consequence if the part is not configured
}

// A warning is a result that an operator should know, but with which serve works.
type warning string

func (w warning) Error() string { return string(w) }

// Check probes the parts that serve would use on this machine and, if reach is true, all others. It changes nothing. It prints the
// results. The error has the number of failed parts.
func Check(ctx context.Context, cfg config.Config, reach bool, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	probes, configured := localProbes(cfg, !reach), 0
	if reach {
		probes = append(probes, remoteProbes(ctx, cfg)...)
	} else if cfg.Redis.URL != "none" {
		probes = append(probes, probe{part: "redis", address: config.Host(cfg.Redis.URL), find: func(context.Context) (string, error) { return parseRedis(cfg) }})
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
