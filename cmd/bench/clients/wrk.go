package clients

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

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
