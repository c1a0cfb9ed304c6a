// Package peers compares tipcache with nginx and with servers that only send recorded responses.
package peers

import (
	"context"
	"fmt"
	"os"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// A subject is a kind of load to measure servers with.
type subject struct {
	name    string
	offer   offer // servers without it are skipped
	measure func(ctx context.Context, s *peer, connections int) result
}

// result is the outcome of one measurement.
type result struct {
	clients.Loaded
	cpu float64 // seconds per 100,000 requests
}

// once measures what getting each path once costs a server.
func once(ctx context.Context, server *rig.Process, url string, connections int, paths []string, headers ...string) result {
	crowd := clients.NewCrowd(rig.Host(url), connections)
	defer crowd.Close()
	rig.Check(crowd.Open(ctx))
	return spend(server, func() clients.Loaded { return rig.Must(crowd.Once(ctx, paths, headers...)) })
}

// spend measures what a load costs a server.
func spend(server *rig.Process, load func() clients.Loaded) (r result) {
	spent := rig.Spent(server, func() { r.Loaded = load() })
	r.cpu = spent.Seconds() / r.Requests * 1e5
	return r
}

// A cell identifies a cell of the table.
type cell struct {
	subject     string
	connections int
	server      string
}

// compare measures each server with each subject, in rounds. Each round begins with another server. The first server
// must be tipcache. It returns one row for each cell whose measurements succeeded.
func compare(ctx context.Context, r *rig.Rig, connections []int, servers []*peer, subjects []subject) (rows [][]string) {
	results, failed := map[cell][]result{}, map[cell]bool{}
	for round := range r.Rounds {
		for _, n := range connections {
			for _, sub := range subjects {
				for i := range servers {
					s := servers[(round+i)%len(servers)]
					at := cell{sub.name, n, s.name}
					if s.urls[sub.offer] == "" || failed[at] {
						continue
					}
					if err := rig.Try(func() { results[at] = append(results[at], sub.measure(ctx, s, n)) }); err != nil {
						failed[at] = true
						r.Broken(fmt.Errorf("%s, %s, %d connections: %w", sub.name, s.name, n, err))
					}
					for _, log := range []string{s.Log, s.accessLog} { // logs of all rounds would fill the disk
						_ = os.Truncate(log, 0)
					}
				}
				rig.Check(ctx.Err())
			}
		}
		r.Progress("%s: round %d of %d", subjects[0].name, round+1, r.Rounds)
	}
	for _, sub := range subjects {
		for _, n := range connections {
			for _, s := range servers {
				if at := (cell{sub.name, n, s.name}); s.urls[sub.offer] != "" && !failed[at] {
					rows = append(rows, row(at, results[at], results[cell{sub.name, n, servers[0].name}], results[cell{subjects[0].name, n, s.name}]))
				}
			}
		}
	}
	return rows
}

func cpu(r result) float64 { return r.cpu }

// row returns the figures of a server, the ratio of tipcache's CPU to its CPU, and the ratio to its own CPU with the
// first subject.
func row(at cell, own, ours, first []result) []string {
	median := func(of func(result) float64) float64 { return figures.MedianOf(own, of) }
	return figures.Row(at.subject, at.connections, at.server, fmt.Sprintf("%.0f", median(func(r result) float64 { return r.PerSecond })),
		median(func(r result) float64 { return r.P50 }), median(func(r result) float64 { return r.P99 }), median(cpu),
		figures.MedianRatio(ours, own, cpu), figures.MedianRatio(own, first, cpu))
}

// report prints the rows of compare.
func report(r *rig.Rig, title string, rows [][]string) {
	r.Table(title, []string{
		"case", "connections", "server", "req/s", "p50 ms", "p99 ms", "CPU s/100k", "tipcache's CPU / its", "CPU / first case's",
	}, rows)
	r.Note("CPU s/100k is of the server and its children, per 100,000 requests. Figures are medians of %d rounds; ratios are medians of the rounds' ratios.", r.Rounds)
}
