// Command bench measures tipcache alone and next to its peers: requests per second, CPU per request, latency, node
// requests, age of responses and memory. It also causes faults and checks what clients get.
//
//	go run -tags nomsgpack ./cmd/bench                    all parts, in about an hour
//	go run -tags nomsgpack ./cmd/bench peers herd         two parts
//	go run -tags nomsgpack ./cmd/bench -short start       a short check that the part works
//	go run -tags nomsgpack ./cmd/bench faults set-back    responses to clients during faults; see faults -h
//	go run -tags nomsgpack ./cmd/bench faults -random -seed 7 -for 10m
//	go run -tags nomsgpack ./cmd/bench memory h2-headers  memory of a replica under attack; see memory -h
//
// It starts the tools on the PATH on free ports of 127.0.0.1, and ends them. RESULTS.md has the results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tipcache/tipcache/cmd/bench/faults"
	"github.com/tipcache/tipcache/cmd/bench/load"
	"github.com/tipcache/tipcache/cmd/bench/parent"
	"github.com/tipcache/tipcache/cmd/bench/peers"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/bench/streams"
)

var parts = []rig.Part{
	{Name: "peers", About: "hits compared with nginx and bare Go servers: requests per second, latency, CPU", Run: peers.Hits},
	{Name: "production", About: "hits with rate, Redis and traces, compared with the same program without, and without the fast lane: CPU, and the load of Redis", Run: peers.Production},
	{Name: "calls", About: "RPC calls by POST with different ids, compared with a small REST hit and bare Go servers: CPU", Run: peers.Calls},
	{Name: "herd", About: "500 clients at once on a cold key: what the node is asked, how long they wait", Run: peers.Herd},
	{Name: "keys", About: "10,000 and 100,000 keys, all wanted at each block: how long clients wait, what fails, what is current, what the node is asked", Run: peers.Keys},
	{Name: "misses", About: "uncached responses of 1, 51 and 515 KB, plain and for a browser, and one that is never cached, compared with nginx: CPU, latency", Run: peers.Misses},
	{Name: "collections", About: "10 million logs indexed, import and pages of 10^6 collections, SQLite and PostgreSQL", Run: load.Collections},
	{Name: "start", About: "time from exec to the first 200 of /readyz, and memory of an idle and of a full replica", Run: load.Start},
	{Name: "visible", About: "200 writes: how long after its receipt the first response includes each", Run: load.Visible},
	{Name: "probe", About: "tipcache probe of tipcache, of an nginx that caches for a second, and of their node: blocks behind, steps backward, latency", Run: peers.Probe},
	{Name: "redis", About: "a replica with empty memory and a full Redis, compared with a bare Gin server that does one GET", Run: peers.Redis},
	{Name: "renewals", About: "what 3 and 5 replicas cost the Redis that they share, per key and block", Run: peers.Renewals},
	{Name: "parent", About: "this program compared with an earlier one, named by -parent: CPU, allocations and node requests of a hit, a miss, a block and an event", Run: parent.Compare},
	{Name: "streams", About: "how long after a block its change is with every stream, and what a stream holds", Run: streams.Streams},
}

// commands have flags of their own.
var commands = map[string]func(ctx context.Context, args []string) error{
	"faults":          faults.Faults,
	"memory":          faults.Memory,
	peers.BareCommand: peers.RunBare,
}

func main() {
	ctx, stop := untilSignalled(context.Background())
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, rig.ErrUsage):
		defer os.Exit(2)
	default:
		defer os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
}

// untilSignalled returns a context that ends at an interrupt or SIGTERM. SIGPIPE is ignored, so that a run whose output
// is no longer read still stops its processes.
func untilSignalled(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:])
	}
	o := rig.Options{Connections: []int{16, 64, 256}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.AddFlags(fs)
	fs.StringVar(&o.Parent, "parent", "", "compare with this `binary` in part parent, which is skipped without one")
	fs.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds of each measurement; figures are medians")
	fs.BoolVar(&o.Short, "short", false, "one short round of everything, to see that it works")
	fs.Func("connections", "connections of wrk, one series each (default 16,64,256)", func(list string) error {
		return json.Unmarshal([]byte("["+list+"]"), &o.Connections)
	})
	fs.StringVar(&o.Cases, "cases", "", "measure only the cases of peers, keys, misses and renewals that match the `pattern`")
	introduction := "bench [flags] [part ...]\nbench faults [flags] [scenario ...]\nbench memory [flags] [attack ...]\n\nParts, all of them unless named:"
	for _, p := range parts {
		introduction += fmt.Sprintf("\n  %-12s %s", p.Name, p.About)
	}
	fs.StringVar(&o.Picture, "picture", "", "write the picture of part probe to this `file`")
	if err := rig.Parse(fs, introduction, args); err != nil {
		return err
	}
	if o.Short {
		o.Rounds = 1
	}
	chosen, err := rig.Choose("part", parts, fs.Args(), func(p rig.Part) string { return p.Name })
	if err != nil {
		return err
	}
	return rig.Measure(ctx, o, chosen...)
}
