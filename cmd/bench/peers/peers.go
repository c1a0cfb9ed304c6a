// Package peers measures tipcache beside nginx, Varnish and servers that do nothing
// but send its bytes.
package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// peerCase is a kind of request that all servers answer from memory.
type peerCase struct {
	name     string
	q        request
	barePath string   // where bare servers serve it
	headers  []string // of every request, beside its own
	vary     bool     // another body each time, of the same meaning
	only     bool     // only tipcache and the bare servers can
}

// peersRun is the state of the part.
type peersRun struct {
	*rig.Rig
	servers []*peer // the first is tipcache
	cases   []peerCase
	results map[cell][]result // by rounds
	failed  map[cell]error
}

// cell is a place in the tables.
type cell struct {
	server, name string
	connections  int
}

// result is what one run of wrk came to.
type result struct {
	clients.Loaded
	cpu float64 // seconds per 100,000 requests
	rss int64
}

// Hits measures hits beside other servers.
func Hits(ctx context.Context, r *rig.Rig) error {
	p := &peersRun{Rig: r, results: map[cell][]result{}, failed: map[cell]error{}}
	if err := p.startAll(ctx); err != nil {
		return err
	}
	for round := range r.Rounds {
		for _, connections := range r.Connections {
			if err := p.round(ctx, round, connections); err != nil {
				return err
			}
		}
		r.Progress("peers: round %d of %d", round+1, r.Rounds)
	}
	p.report()
	return p.failures()
}

// round gives every server its turn at every case.
func (p *peersRun) round(ctx context.Context, round, connections int) error {
	for _, c := range p.cases {
		for i := range p.servers { // another one begins each round
			s := p.servers[(round+i)%len(p.servers)]
			if s.target(c) == "" {
				continue
			}
			at := cell{s.name, c.name, connections}
			r, err := p.measure(ctx, s, c, connections)
			_ = os.Truncate(s.Log, 0) // an access log of all rounds would fill disks
			_ = os.Truncate(s.accessLog, 0)
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
func (p *peersRun) measure(ctx context.Context, s *peer, c peerCase, connections int) (result, error) {
	if err := warm(ctx, s.target(c), c.q); err != nil {
		return result{}, err
	}
	l := clients.Load{URL: s.target(c), Connections: connections, Length: p.Length, Headers: append(c.q.headers(), c.headers...)}
	if err := p.script(&l, c); err != nil {
		return result{}, err
	}
	all, hits, err := s.counts(ctx)
	if err != nil {
		return result{}, err
	}
	var r result
	spent, err := rig.Spent(func() (err error) { r.Loaded, err = clients.Wrk(ctx, l); return err }, s.Process)
	if err != nil {
		return r, err
	}
	used, err := s.Usage()
	if err != nil {
		return r, err
	}
	r.cpu, r.rss = spent[0].Seconds()/r.Requests*1e5, used.RSS
	allAfter, hitsAfter, err := s.counts(ctx)
	if share := (hitsAfter - hits) / (allAfter - all); err == nil && s.replica != nil && !(share >= hitShare) {
		return r, fmt.Errorf("only %.2f %% of the answers were hits in memory", 100*share)
	}
	return r, err
}

// warm has a page read anew that is fresh for a few seconds only, and waits for it.
func warm(ctx context.Context, url string, q request) error {
	_, err := q.ask(ctx, url, "")
	time.Sleep(50 * time.Millisecond)
	return err
}

// hitShare is how much of what tipcache is asked must be hits: these cases
// compare hits.
const hitShare = 0.999

// counts is of tipcache alone.
func (p *peer) counts(ctx context.Context) (all, hits float64, err error) {
	if p.replica == nil {
		return 0, 0, nil
	}
	return p.replica.CacheRequests(ctx, "memory")
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
