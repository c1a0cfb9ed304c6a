// Package probe measures from outside how current the API of a chain is. The API can be the REST API of Story or of the Cosmos
// SDK, or the CometBFT RPC, of a node or of any server in front of nodes.
//
//  1. server.go detects which API a server has, and api.go reads it.
//  2. endpoint.go samples an endpoint at a fixed rate. timeline.go records when each block was first named.
//  3. announce.go reads the state of each block that an endpoint announces.
//  4. compare.go reads samples again, from the endpoint and from a trusted node. value.go compares them.
//  5. report.go computes the results, limits.go checks them, and table.go and picture.go show them.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	defaultFor  = time.Minute
	defaultRate = 5

	timeout     = 5 * time.Second // for one read
	sampleEvery = 10              // number of samples for each sample that is compared
)

// Options configure a run.
type Options struct {
	Endpoints []string      // URLs to measure, each as URL or NAME=URL
	Tip       string        // URL of a server that also names blocks, and is not measured; "" for none
	Against   string        // URL of a trusted node to compare responses with; "" for none
	ChainID   string        // chain of the servers whose API does not name it
	Paths     []string      // REST paths to read, with their queries; nil means the built-in ones
	For       time.Duration // default 1 minute
	Rate      float64       // reads per second and endpoint; default 5
	Progress  io.Writer     // terminal for a progress line; nil for none

	// Dial connects to a server. nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// WithDefaults fills in zero fields.
func (o Options) WithDefaults() Options {
	o.For = cmp.Or(o.For, defaultFor)
	o.Rate = cmp.Or(o.Rate, defaultRate)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	return o
}

// A run is one run of a probe.
type run struct {
	Options
	chain     string // "" if unknown
	named     timeline
	endpoints []*endpoint
	tip       *endpoint // nil for none
	against   *server   // nil for none
}

// Run measures endpoints until o.For is over or ctx ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{Options: o.WithDefaults()}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	sampling, stop := context.WithTimeout(ctx, r.For)
	defer stop()
	var all sync.WaitGroup
	for _, e := range r.followed() {
		all.Go(func() { e.sample(ctx, sampling) })
		all.Go(func() { e.followAnnouncements(sampling) })
		all.Go(func() { e.compareSamples(sampling) })
	}
	all.Go(func() { r.showProgress(sampling, began) })
	all.Wait()
	for _, s := range r.servers() {
		s.client.CloseIdleConnections()
	}
	return r.report(began), nil
}

// followed returns the endpoints that name blocks.
func (r *run) followed() []*endpoint {
	if r.tip == nil {
		return r.endpoints
	}
	return append(slices.Clone(r.endpoints), r.tip)
}

func (r *run) servers() (all []*server) {
	for _, e := range r.followed() {
		all = append(all, e.server)
	}
	if r.against != nil {
		all = append(all, r.against)
	}
	return all
}

// open contacts all servers. It returns an error if they do not serve one chain.
func (r *run) open(ctx context.Context) error {
	if len(r.Endpoints) == 0 || r.For < 0 || math.IsNaN(r.Rate) || r.Rate < 0.001 || r.Rate > 1000 {
		return errors.New("want at least one URL, a positive time, and 0.001 to 1000 reads per second")
	}
	for _, path := range r.Paths {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("path is %q; want one that begins with /", path)
		}
	}
	for _, spec := range r.Endpoints {
		s, err := r.openServer(ctx, spec)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(r.endpoints, func(e *endpoint) bool { return e.name == s.name }) {
			return fmt.Errorf("two endpoints have the name %s: write them as NAME=URL", s.name)
		}
		r.endpoints = append(r.endpoints, newEndpoint(r, s))
	}
	if r.Tip != "" {
		s, err := r.openServer(ctx, r.Tip)
		if err != nil {
			return err
		}
		r.tip = newEndpoint(r, s)
	}
	if r.Against != "" {
		if err := r.openAgainst(ctx); err != nil {
			return err
		}
	}
	for _, e := range r.followed() { // the newest block first: no block is out of its reach
		r.named.add(e.height)
	}
	return r.checkChain()
}

func (r *run) openAgainst(ctx context.Context) (err error) {
	if r.against, err = r.openServer(ctx, r.Against); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.endpoints, func(e *endpoint) bool { return e.api == r.against.api }) {
		return fmt.Errorf("%s has another API than the endpoints: %s", r.against.name, r.against.api)
	}
	return nil
}

// checkChain returns an error unless all servers serve one chain.
func (r *run) checkChain() error {
	r.chain = r.ChainID
	all := r.servers()
	for _, s := range all {
		switch r.chain = cmp.Or(r.chain, s.chain); {
		case s.chain == "" && r.ChainID == "" && len(all) > 1:
			return fmt.Errorf("%s does not name its chain (%s): if it serves the same chain as the other servers, name the chain with --chain-id", s.name, s.api)
		case s.chain != "" && s.chain != r.chain:
			return fmt.Errorf("%s serves chain %q instead of %q", s.name, s.chain, r.chain)
		}
	}
	return nil
}

// newClient returns a client with one connection to a server.
func (r *run) newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: r.Dial, ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
	}}
}

// showProgress writes a progress line every second.
func (r *run) showProgress(ctx context.Context, began time.Time) {
	if r.Progress == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprintf(r.Progress, "\r\x1b[K%v of %v, block %d", time.Since(began).Round(time.Second), r.For, r.named.newest())
		select {
		case <-ctx.Done():
			fmt.Fprint(r.Progress, "\r\x1b[K")
			return
		case <-tick.C:
		}
	}
}
