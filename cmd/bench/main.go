// Command bench measures tipcache beside its peers and alone, and fails what it
// depends on: requests per second, CPU per request and latency, what a node is
// asked, how old answers are, what is held, and what clients see of a fault.
//
//	go run ./cmd/bench                    all that is measured, in about an hour
//	go run ./cmd/bench peers herd         some of it
//	go run ./cmd/bench -short start       see that it works
//	go run ./cmd/bench drive -rolling     replicas under load; see drive -h
//	go run ./cmd/bench faults set-back    what clients see of faults; see faults -h
//
// It starts everything it needs on free ports of 127.0.0.1, from the tools on
// the PATH, and ends all of it. RESULTS.md has what was measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/tipcache/tipcache/cmd/bench/faults"
	"github.com/tipcache/tipcache/cmd/bench/load"
	"github.com/tipcache/tipcache/cmd/bench/peers"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/bench/sessions"
	"github.com/tipcache/tipcache/cmd/bench/streams"
)

func parts() []rig.Part {
	return []rig.Part{
		{Name: "peers", About: "hits beside nginx, Varnish and bare Go servers: requests per second, latency, CPU", Needs: []string{"wrk", "nginx", "varnishd", "openssl"}, Run: peers.Hits},
		{Name: "calls", About: "calls of the RPC by POST under other ids, beside a small hit by REST and bare Go servers: CPU", Needs: []string{"wrk"}, Run: peers.Calls},
		{Name: "herd", About: "500 clients at once on a cold key: what the node is asked, how long they wait", Needs: []string{"nginx", "varnishd"}, Run: peers.Herd},
		{Name: "freshness", About: "a chain that moves: what the node is asked per key and block, how old answers are", Needs: []string{"nginx", "varnishd"}, Run: peers.Freshness},
		{Name: "keys", About: "10,000 and 100,000 keys, all wanted at each block: how long clients wait, what fails, what is current, what the node is asked", Needs: []string{"nginx"}, Run: peers.Keys},
		{Name: "misses", About: "answers of 1, 51 and 515 KB that nobody asked for before, plain and for a browser, and one that is passed through, beside nginx: CPU, latency", Needs: []string{"nginx"}, Run: peers.Misses},
		{Name: "collections", About: "10 million logs indexed, import and pages of 10^6 collections, SQLite and PostgreSQL", Needs: []string{"initdb", "postgres"}, Run: load.Collections},
		{Name: "start", About: "time from exec to the first 200 of /readyz, what a replica holds that is idle or full, and where another one beside it finds its answers", Needs: []string{"redis-server"}, Run: load.Start},
		{Name: "redis", About: "a replica without memory before a full Redis, beside a bare Gin server that does one GET", Needs: []string{"redis-server"}, Run: peers.Redis},
		{Name: "renewals", About: "what 1, 3 and 5 replicas cost the Redis that they share, per key and block", Needs: []string{"redis-server"}, Run: peers.Renewals},
		{Name: "streams", About: "how long after a block its change is with every stream, and what a stream holds", Run: streams.Streams},
		{Name: "sockets", About: "how long after a block its header is with 10,000 WebSockets of the RPC, and what a socket holds", Run: streams.Sockets},
		{Name: "sessions", About: "sessions through an nginx that pools connections, over three replicas and faults: heights that go back, writes that are missed", Needs: []string{"nginx", "redis-server"}, Run: sessions.Sessions},
		{Name: "polls", About: "10,000 followers by polls through nginx and through Varnish: what tipcache is asked, how long after a block its change is with all", Needs: []string{"nginx", "varnishd"}, Run: streams.Polls},
	}
}

// commands have flags of their own.
var commands = map[string]func(ctx context.Context, args []string) error{
	"drive":           faults.Drive,
	"faults":          faults.Faults,
	peers.BareCommand: peers.RunBare,
	rig.RelayCommand:  rig.RunRelay,
}

func main() {
	ctx, stop := untilSignalled(context.Background())
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	if errors.Is(err, rig.ErrUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

// untilSignalled ends with the signals after which all that was started is to end.
// SIGPIPE is none of them: it comes for a connection that was lost, too. It is ignored,
// so that a run whose reader has gone still ends in order.
func untilSignalled(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			return command(ctx, args[1:])
		}
	}
	options, chosen, err := parse(args)
	if err != nil {
		return err
	}
	options.Note("%s", rig.Machine())
	return rig.Measure(ctx, options, chosen...)
}

// parse reads the flags and returns the parts that were named, or all.
func parse(args []string) (o rig.Options, chosen []rig.Part, err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.AddFlags(fs)
	o.Connections = []int{16, 64, 256}
	fs.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds of each measurement; figures are medians")
	fs.BoolVar(&o.Short, "short", false, "one short round of everything, to see that it works")
	fs.Func("connections", "connections of wrk, one series each (default 16,64,256)", func(list string) (err error) {
		o.Connections, err = numbers(list)
		return err
	})
	fs.StringVar(&o.Cases, "cases", "", "measure only the cases of peers, keys, misses and renewals that match the `pattern`")
	if err := rig.Parse(fs, introduction(), args); err != nil {
		return o, nil, err
	}
	if o.Short {
		o.Rounds = 1
	}
	if o.Rounds < 1 {
		return o, nil, fmt.Errorf("%w: at least one round", rig.ErrUsage)
	}
	chosen, err = rig.Choose("part", parts(), fs.Args(), func(p rig.Part) string { return p.Name })
	return o, chosen, err
}

// numbers reads a list of them, from 1 on.
func numbers(list string) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number from 1 on", text)
		}
		all = append(all, n)
	}
	return all, nil
}

func introduction() string {
	text := "bench [flags] [part ...]\nbench drive [flags]\nbench faults [flags] [scenario ...]\n\nParts, all of them unless named:"
	for _, p := range parts() {
		text += fmt.Sprintf("\n  %-12s %s", p.Name, p.About)
	}
	return text
}
