package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func peersPart() part {
	return part{
		name:  "peers",
		about: "hits beside nginx, Varnish and bare Go servers: requests per second, latency, CPU",
		needs: []tool{wrkTool, nginxTool, varnishTool},
		run:   runPeers,
	}
}

// A server is one of those compared. target is where it serves a case, "" where
// it has nothing like it.
type server struct {
	name   string
	proc   *process
	target func(c peerCase) string
}

// peerCase is a kind of request that all servers answer from memory.
type peerCase struct {
	name     string
	q        question
	barePath string   // where bare servers serve it
	headers  []string // of every request, beside the question's
	vary     bool     // another body each time, of the same meaning
	only     bool     // only tipcache and the bare servers can
}

// peersRun is the state of the part.
type peersRun struct {
	*bench
	tipcache *tipcacheProc
	servers  []server
	cases    []peerCase
	results  map[cell][]result // by rounds
	failed   map[cell]error
}

// cell is a place in the tables.
type cell struct {
	server, name string
	connections  int
}

// result is what one run of wrk came to.
type result struct {
	loaded
	cpu float64 // seconds per 100,000 requests
	rss int64
}

func runPeers(ctx context.Context, b *bench) error {
	p := &peersRun{bench: b, results: map[cell][]result{}, failed: map[cell]error{}}
	if err := p.startAll(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		for _, connections := range b.connections {
			if err := p.round(ctx, round, connections); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "peers: round %d of %d done\n", round+1, b.rounds)
	}
	p.report()
	return p.failures()
}

// round gives every server its turn at every case.
func (p *peersRun) round(ctx context.Context, round, connections int) error {
	for _, c := range p.cases {
		for _, i := range rotated(len(p.servers), round) {
			s := p.servers[i]
			if s.target(c) == "" {
				continue
			}
			at := cell{s.name, c.name, connections}
			r, err := p.measure(ctx, s, c, connections)
			_ = os.Truncate(s.proc.log, 0) // an access log of all rounds would fill disks
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				p.failed[at] = fmt.Errorf("%s, %s, %d connections: %w", c.name, s.name, connections, err)
				continue
			}
			p.results[at] = append(p.results[at], r)
		}
	}
	return nil
}

// measure runs wrk once. tipcache has to answer nearly all from memory.
func (p *peersRun) measure(ctx context.Context, s server, c peerCase, connections int) (result, error) {
	if err := warm(ctx, s.target(c), c.q); err != nil {
		return result{}, err
	}
	l := load{url: s.target(c), connections: connections, length: p.seconds, headers: append(c.q.headers(), c.headers...)}
	if err := p.script(&l, c); err != nil {
		return result{}, err
	}
	all, hits, err := p.counts(ctx, s)
	if err != nil {
		return result{}, err
	}
	r, err := p.bench.measure(ctx, s.proc, l)
	if err != nil {
		return r, err
	}
	allAfter, hitsAfter, err := p.counts(ctx, s)
	if share := (hitsAfter - hits) / (allAfter - all); err == nil && s.proc == p.tipcache.process && !(share >= hitShare) {
		return r, fmt.Errorf("only %.2f %% of the answers were hits in memory", 100*share)
	}
	return r, err
}

// warm has a page read anew that is fresh for a few seconds only, and waits for it.
func warm(ctx context.Context, url string, q question) error {
	_, err := q.ask(ctx, url, "Accept-Encoding", "")
	time.Sleep(50 * time.Millisecond)
	return err
}

// hitShare is how much of what tipcache is asked must be hits: these cases
// compare hits.
const hitShare = 0.999

// counts is of tipcache alone.
func (p *peersRun) counts(ctx context.Context, s server) (all, hits float64, err error) {
	if s.proc != p.tipcache.process {
		return 0, 0, nil
	}
	return p.tipcache.cacheRequests(ctx, "memory")
}

// measure runs a load and says what it cost the process.
func (b *bench) measure(ctx context.Context, proc *process, l load) (result, error) {
	before, err := proc.usage()
	if err != nil {
		return result{}, err
	}
	seen, err := b.wrk(ctx, l)
	if err != nil {
		return result{}, err
	}
	after, err := proc.usage()
	cpu := (after.cpu - before.cpu).Seconds() / seen.requests * 1e5
	return result{loaded: seen, cpu: cpu, rss: after.rss}, err
}

// failures are in the order of the tables.
func (p *peersRun) failures() error {
	var all []error
	for _, err := range p.failed {
		all = append(all, err)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

// validity is how long the general caches keep answers in this part: longer
// than it takes.
const validity = 24 * time.Hour
