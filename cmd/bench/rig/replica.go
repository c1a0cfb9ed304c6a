package rig

import (
	"context"
	"fmt"
)

// Serving says what a replica is started with.
type Serving struct {
	Node, Comet string // URLs
	Flags       []string
	Env         []string // as in KEY=value
}

// A Replica is a `tipcache serve` in a process of its own.
type Replica struct {
	*Process
	URL, Admin string // without a path
}

// Replica starts one and waits until it is ready. All is as serve has it by
// default, the access log (to a file) and the metrics included, but for a store
// in memory that nobody may ask. Flags come last.
func (r *Rig) Replica(ctx context.Context, s Serving) (*Replica, error) {
	t, err := r.Launch(ctx, s)
	if err != nil {
		return nil, err
	}
	return t, t.Ready(ctx)
}

// stillIsWell makes a replica ready before a chain of which no block comes.
const stillIsWell = "TIPCACHE_CHAIN_MAX_BLOCK_AGE=48h"

// Launch is Replica without the wait.
func (r *Rig) Launch(ctx context.Context, s Serving) (*Replica, error) {
	public, admin := FreeAddr(), FreeAddr()
	t := &Replica{URL: "http://" + public, Admin: "http://" + admin}
	argv := []string{
		r.Bin, "serve", "--listen", public, "--admin", admin, "--node", s.Node, "--comet", s.Comet,
		"--store", "sqlite::memory:", "--collections-auth", "closed",
	}
	var err error
	t.Process, err = r.Start(ctx, "tipcache-"+Port(public), append([]string{stillIsWell}, s.Env...), append(argv, s.Flags...)...)
	return t, err
}

// Ready waits until the replica says so.
func (t *Replica) Ready(ctx context.Context) error {
	return t.Process.Ready(ctx, Answers(t.Admin+"/readyz"))
}

// The metrics of what a replica holds.
const (
	CacheBytes   = "tipcache_cache_memory_bytes"
	CacheEntries = "tipcache_cache_memory_entries"
	Goroutines   = "go_goroutines"
	heapAlloc    = "go_memstats_heap_alloc_bytes"
)

// Metrics are those of this moment.
func (t *Replica) Metrics(ctx context.Context) (Samples, error) {
	text, err := Get(ctx, t.Admin+"/metrics")
	return ParseSamples(text), err
}

// CacheRequests counts what the cache was asked, and what of that was a hit in
// the store, "memory" or "shared".
func (t *Replica) CacheRequests(ctx context.Context, store string) (all, hits float64, err error) {
	s, err := t.Metrics(ctx)
	const name = "tipcache_cache_requests_total"
	return s.Sum(name), s.Sum(name, `outcome="hit"`, fmt.Sprintf("store=%q", store)), err
}
