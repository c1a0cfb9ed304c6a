package clients

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// A Load is one run of wrk, with one thread.
type Load struct {
	URL         string
	Connections int
	Length      time.Duration
	Headers     []string // as in "Accept-Encoding: gzip"
	Script      string   // path of a Lua script, for a method or bodies; it costs wrk CPU per request
}

// Loaded is what wrk saw of a server.
type Loaded struct {
	Requests  float64
	PerSecond float64
	P50, P99  time.Duration
}

// Wrk runs the load. An error of a socket or an answer that is not 2xx or 3xx is an error.
func Wrk(ctx context.Context, l Load) (Loaded, error) {
	argv := []string{"wrk", "-t1", "-c" + strconv.Itoa(l.Connections), fmt.Sprintf("-d%.0fs", l.Length.Seconds()), "--latency"}
	for _, h := range l.Headers {
		argv = append(argv, "-H", h)
	}
	if l.Script != "" {
		argv = append(argv, "-s", l.Script)
	}
	text, err := rig.Output(ctx, "", append(argv, l.URL)...)
	if err != nil {
		return Loaded{}, err
	}
	seen, err := parseWrk(text)
	if err != nil {
		return seen, fmt.Errorf("wrk %s: %w", l.URL, err)
	}
	return seen, nil
}

var (
	wrkFigures = regexp.MustCompile(`(?s)\n +50% +(\S+) *\n.*\n +99% +(\S+) *\n +(\d+) requests in .*\nRequests/sec: +([\d.]+)`)
	wrkTrouble = regexp.MustCompile(`(?m)^\s+(Socket errors: .*|Non-2xx or 3xx responses: .*)`)
)

// parseWrk reads what wrk --latency prints.
func parseWrk(text string) (l Loaded, err error) {
	if m := wrkTrouble.FindStringSubmatch(text); m != nil {
		return l, errors.New(m[1])
	}
	m := wrkFigures.FindStringSubmatch(text)
	if m == nil {
		return l, fmt.Errorf("no figures in:\n%s", text)
	}
	var errs [4]error
	l.P50, errs[0] = time.ParseDuration(m[1])
	l.P99, errs[1] = time.ParseDuration(m[2])
	l.Requests, errs[2] = strconv.ParseFloat(m[3], 64)
	l.PerSecond, errs[3] = strconv.ParseFloat(m[4], 64)
	if err := errors.Join(errs[:]...); err != nil {
		return l, fmt.Errorf("%w in:\n%s", err, text)
	}
	if l.Requests == 0 {
		return l, errors.New("nothing was answered")
	}
	return l, nil
}
