package rig

import (
	"cmp"
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Serving configures a replica.
type Serving struct {
	Bin         string // the program; "" for the rig's
	Node, Comet string // URLs
	Cert        string // PEM file with a certificate and its key; "" for no TLS
	Flags       []string
	Env         []string // as in KEY=value
}

// Before returns the configuration of a replica in front of a simulated chain's first node.
func Before(d *devnet.Devnet, flags ...string) Serving {
	return Serving{Node: d.NodeURL(), Comet: d.CometURL(), Flags: flags}
}

// A Replica is a process of `tipcache serve`.
type Replica struct {
	*Process
	URL, Admin string // without a path
}

// stillIsWell makes a replica ready although its chain makes no blocks.
const stillIsWell = "TIPCACHE_CHAIN_MAX_BLOCK_AGE=48h"

// Replica starts a replica and waits until it is ready. It has the default settings, with the access log in a file, but
// serves no collections. Flags come last.
func (r *Rig) Replica(ctx context.Context, s Serving) *Replica {
	public, admin := FreeAddr(), FreeAddr()
	scheme, env := "http://", append([]string{stillIsWell}, s.Env...)
	if s.Cert != "" {
		scheme, env = "https://", append(env, "TIPCACHE_HTTP_TLS_CERT="+s.Cert, "TIPCACHE_HTTP_TLS_KEY="+s.Cert)
	}
	argv := []string{
		cmp.Or(s.Bin, r.Bin), "serve", "--listen", public, "--admin", admin, "--node", s.Node, "--comet", s.Comet,
		"--store", "sqlite::memory:", "--collections-auth", "closed",
	}
	t := &Replica{r.Start(ctx, "tipcache-"+Port(public), env, append(argv, s.Flags...)...), scheme + public, scheme + admin}
	t.Ready(ctx)
	return t
}

// Ready waits until the replica is ready.
func (t *Replica) Ready(ctx context.Context) {
	t.Process.Ready(ctx, Answers(t.Admin+"/readyz"))
}

// Renew restarts the replica by SIGTERM, and waits until it is ready or ctx ends.
func (t *Replica) Renew(ctx context.Context) {
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	t.Wait()
	t.Restart(context.WithoutCancel(ctx))
	t.Ready(ctx)
}

// Metrics returns the current metrics.
func (t *Replica) Metrics(ctx context.Context) (Samples, error) {
	text, err := Get(ctx, t.Admin+"/metrics")
	return ParseSamples(text), err
}

// CacheRequests returns the number of cache requests, and of hits in memory and in the shared store.
func (t *Replica) CacheRequests(ctx context.Context) (all, memory, shared float64) {
	s := Must(t.Metrics(ctx))
	const name, hit = "tipcache_cache_requests_total", `outcome="hit"`
	return s.Sum(name), s.Sum(name, hit, `store="memory"`), s.Sum(name, hit, `store="shared"`)
}

// Collections writes collections to a file.
func (r *Rig) Collections(all iter.Seq[collections.Collection]) (file string) {
	file = filepath.Join(r.Dir, "collections.jsonl")
	Check(demo.WriteCollections(all, file))
	return file
}

// Import imports a file of collections into a store.
func (r *Rig) Import(ctx context.Context, file, store string) {
	_ = Must(Output(ctx, "", r.Bin, "import", "--store", store, file))
}

// Samples are metric values by series, such as name{label="value"}.
type Samples map[string]float64

// ParseSamples parses the text format of client_golang.
func ParseSamples(text string) Samples {
	s := Samples{}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
			s[line[:at]] = v
		}
	}
	return s
}

// Sum returns the sum of the series of a metric that have all labels, such as outcome="hit".
func (s Samples) Sum(metric string, labels ...string) (total float64) {
	for series, v := range s {
		name, rest, _ := strings.Cut(series, "{")
		if name == metric && !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			total += v
		}
	}
	return total
}

// MemoryBound returns the bytes that a replica may take by the documentation: 1.5 times its cache.memory, 100 MiB,
// and 40 KiB for each connection.
func MemoryBound(mebibytes, connections int) int64 {
	return int64(mebibytes*3/2+100)<<20 + int64(connections)*40<<10
}
