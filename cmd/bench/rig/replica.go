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

// Serving says what a replica is started with.
type Serving struct {
	Bin         string // the program; "" runs the rig's
	Node, Comet string // URLs
	Cert        string // a PEM file with a certificate and its key; "" is no TLS
	Flags       []string
	Env         []string // as in KEY=value
}

// Before has a replica use the first node of a simulated chain.
func Before(d *devnet.Devnet, flags ...string) Serving {
	return Serving{Node: d.NodeURL(), Comet: d.CometURL(), Flags: flags}
}

// A Replica is a `tipcache serve` in a process of its own.
type Replica struct {
	*Process
	URL, Admin string // without a path
}

// stillIsWell makes a replica ready before a chain of which no block comes.
const stillIsWell = "TIPCACHE_CHAIN_MAX_BLOCK_AGE=48h"

// Replica starts one and waits until it is ready. All is as serve has it by
// default, the access log (to a file) and the metrics included, except for a store
// in memory that is not listed. Flags come last.
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

// Ready waits until the replica says so.
func (t *Replica) Ready(ctx context.Context) {
	t.Process.Ready(ctx, Answers(t.Admin+"/readyz"))
}

// Renew ends the replica in order and starts it again. It is ready by then, or has been
// told to be where ctx ends.
func (t *Replica) Renew(ctx context.Context) {
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	t.Wait()
	t.Restart(context.WithoutCancel(ctx))
	t.Ready(ctx)
}

// Metrics are those of this moment.
func (t *Replica) Metrics(ctx context.Context) (Samples, error) {
	text, err := Get(ctx, t.Admin+"/metrics")
	return ParseSamples(text), err
}

// CacheRequests counts what the cache was asked, and what of that was a hit in
// memory and in the shared store.
func (t *Replica) CacheRequests(ctx context.Context) (all, memory, shared float64) {
	s := Must(t.Metrics(ctx))
	const name, hit = "tipcache_cache_requests_total", `outcome="hit"`
	return s.Sum(name), s.Sum(name, hit, `store="memory"`), s.Sum(name, hit, `store="shared"`)
}

// Collections writes a file of collections.
func (r *Rig) Collections(all iter.Seq[collections.Collection]) (file string) {
	file = filepath.Join(r.Dir, "collections.jsonl")
	Check(demo.WriteCollections(all, file))
	return file
}

// Import puts the collections of a file into a store.
func (r *Rig) Import(ctx context.Context, file, store string) {
	_ = Must(Output(ctx, "", r.Bin, "import", "--store", store, file))
}

// Samples are the values of a Prometheus text by series, as in
// name{label="value"}.
type Samples map[string]float64

// ParseSamples reads the text format as client_golang writes it.
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

// Sum adds up the series of a metric that have all the labels, as in
// outcome="hit".
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
