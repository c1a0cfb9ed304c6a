package clients

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// A Load configures a load generator, which sends sequential requests on each connection.
type Load struct {
	URL         string
	Connections int
	Length      time.Duration
	Headers     []string // such as "Accept-Encoding: gzip"
	Script      string   // path of a Lua script of wrk, for a method or bodies; it costs wrk CPU per request
}

// Loaded is the result of a load.
type Loaded struct {
	Requests, PerSecond float64
	P50, P99            float64 // in milliseconds; NaN if the program does not report them
}

// Wrk runs the load with wrk in one thread. A socket error or a status other than 2xx and 3xx is an error.
func Wrk(ctx context.Context, l Load) (Loaded, error) {
	argv := []string{"wrk", "-t1", "-c" + strconv.Itoa(l.Connections), fmt.Sprintf("-d%.0fs", l.Length.Seconds()), "--latency"}
	if l.Script != "" {
		argv = append(argv, "-s", l.Script)
	}
	return l.run(ctx, parseWrk, argv...)
}

// HTTP2 runs the load with h2load, which accepts any certificate.
func HTTP2(ctx context.Context, l Load) (Loaded, error) {
	return l.run(ctx, parseH2load, "h2load", "-c"+strconv.Itoa(l.Connections), "-m1", fmt.Sprintf("-D%.0f", l.Length.Seconds()))
}

func (l Load) run(ctx context.Context, parse func(text string) (Loaded, error), argv ...string) (seen Loaded, err error) {
	for _, h := range l.Headers {
		argv = append(argv, "-H", h)
	}
	text, err := rig.Output(ctx, "", append(argv, l.URL)...)
	if err == nil {
		seen, err = parse(text)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", argv[0], l.URL, err)
	}
	return seen, err
}

var (
	wrkFigures    = regexp.MustCompile(`(?s)\n +50% +(\S+) *\n.*\n +99% +(\S+) *\n +([1-9]\d*) requests in .*\nRequests/sec: +([\d.]+)`)
	wrkTrouble    = regexp.MustCompile(`(?m)^\s+(Socket errors: .*|Non-2xx or 3xx responses: .*)`)
	h2loadFigures = regexp.MustCompile(`Application protocol: h2\n(?s:.*)finished in .*, ([\d.]+) req/s.*\nrequests: ([1-9]\d*) total, .* 0 failed, 0 errored, 0 timeout\nstatus codes: .* 0 4xx, 0 5xx`)
)

// parseWrk parses the output of wrk --latency.
func parseWrk(text string) (l Loaded, err error) {
	if m := wrkTrouble.FindStringSubmatch(text); m != nil {
		return l, errors.New(m[1])
	}
	m := wrkFigures.FindStringSubmatch(text)
	if m == nil {
		return l, fmt.Errorf("no figures in:\n%s", text)
	}
	p50, err := time.ParseDuration(m[1])
	p99, wrong := time.ParseDuration(m[2])
	return Loaded{number(m[3]), number(m[4]), figures.Milliseconds(p50), figures.Milliseconds(p99)}, errors.Join(err, wrong)
}

// number parses a matched number.
func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// parseH2load parses the output of h2load, which has no quantiles.
func parseH2load(text string) (l Loaded, err error) {
	m := h2loadFigures.FindStringSubmatch(text)
	if m == nil {
		return l, fmt.Errorf("no figures, or errors, in:\n%s", text)
	}
	return Loaded{number(m[2]), number(m[1]), math.NaN(), math.NaN()}, nil
}

// A Crowd is a group of clients.
type Crowd []*Conn

// NewCrowd returns n clients of a server.
func NewCrowd(addr string, n int) Crowd {
	c := make(Crowd, n)
	for i := range c {
		c[i] = &Conn{Addr: addr}
	}
	return c
}

// Close closes all connections.
func (c Crowd) Close() {
	for _, m := range c {
		m.Close()
	}
}

// All calls do for every client concurrently, and returns the first error.
func (c Crowd) All(do func(m *Conn) error) error {
	var all errgroup.Group
	for _, m := range c {
		all.Go(func() error { return do(m) })
	}
	return all.Wait()
}

// SendAll makes each client send requests until next returns none, and calls seen for each response, one at a time. A status
// other than 200 is an error, which ends the client.
func (c Crowd) SendAll(ctx context.Context, next func() (request []byte, ok bool), seen func(Response) error) error {
	var mu sync.Mutex
	return c.All(func(m *Conn) error {
		for request, ok := next(); ok; request, ok = next() {
			r, err := m.Do(ctx, request)
			if err == nil && r.Status != http.StatusOK {
				err = fmt.Errorf("status %d: %.200s", r.Status, r.Body)
			}
			if err == nil {
				mu.Lock()
				err = seen(r)
				mu.Unlock()
			}
			if err != nil {
				return fmt.Errorf("%.300q: %w", request, err)
			}
		}
		return nil
	})
}

// Once gets each of the paths once.
func (c Crowd) Once(ctx context.Context, paths []string, headers ...string) (Loaded, error) {
	requests := make([][]byte, len(paths))
	for i, path := range paths {
		requests[i] = Request(http.MethodGet, path, "", headers...)
	}
	var sent atomic.Int64
	var waits []float64
	began := time.Now()
	err := c.SendAll(ctx, func() ([]byte, bool) {
		i := int(sent.Add(1)) - 1
		return requests[min(i, len(requests)-1)], i < len(requests)
	}, func(r Response) error {
		waits = append(waits, figures.Milliseconds(r.Took))
		return nil
	})
	n := float64(len(requests))
	return Loaded{n, n / time.Since(began).Seconds(), figures.Median(waits), figures.Quantile(waits, 0.99)}, err
}

// Open connects all clients that are not connected.
func (c Crowd) Open(ctx context.Context) error {
	return c.All(func(m *Conn) error { return m.Open(ctx) })
}

// Zipf draws a number below n by Zipf's law with exponent 0.9, which resembles client requests. math/rand requires an
// exponent above 1. It inverts the integral of the law.
func Zipf(n int) int {
	low, high := math.Pow(0.5, 0.1), math.Pow(float64(n)+0.5, 0.1)
	return int(math.Pow(low+(high-low)*rand.Float64(), 10)+0.5) - 1
}
