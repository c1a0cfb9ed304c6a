package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// load is one run of wrk, with one thread.
type load struct {
	url         string
	connections int
	length      time.Duration
	headers     []string // as in "Accept-Encoding: gzip"
	script      string   // path of a Lua script, for a method or bodies; it costs wrk CPU per request
}

// loaded is what wrk saw.
type loaded struct {
	requests  float64
	perSecond float64
	p50, p99  time.Duration
}

// wrk runs the load. An error of a socket or an answer that is not 2xx or 3xx is an error.
func (b *bench) wrk(ctx context.Context, l load) (loaded, error) {
	path, err := wrkTool.path()
	if err != nil {
		return loaded{}, err
	}
	args := []string{"-t1", "-c" + strconv.Itoa(l.connections), fmt.Sprintf("-d%.0fs", l.length.Seconds()), "--latency"}
	for _, h := range l.headers {
		args = append(args, "-H", h)
	}
	if l.script != "" {
		args = append(args, "-s", l.script)
	}
	out, err := exec.CommandContext(ctx, path, append(args, l.url)...).CombinedOutput()
	if err != nil {
		return loaded{}, fmt.Errorf("wrk %s: %w\n%s", l.url, err, out)
	}
	seen, err := parseWrk(string(out))
	if err != nil {
		return seen, fmt.Errorf("wrk %s: %w", l.url, err)
	}
	return seen, nil
}

var (
	wrkRequests = regexp.MustCompile(`(?m)^\s+(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s+([\d.]+)`)
	wrkP50      = regexp.MustCompile(`(?m)^\s+50%\s+([\d.]+[a-z]+)`)
	wrkP99      = regexp.MustCompile(`(?m)^\s+99%\s+([\d.]+[a-z]+)`)
	wrkTrouble  = regexp.MustCompile(`(?m)^\s+(Socket errors: .*|Non-2xx or 3xx responses: .*)`)
)

// parseWrk reads what wrk --latency prints.
func parseWrk(text string) (loaded, error) {
	if m := wrkTrouble.FindStringSubmatch(text); m != nil {
		return loaded{}, errors.New(m[1])
	}
	var l loaded
	var errs []error
	number := func(re *regexp.Regexp) float64 {
		n, err := strconv.ParseFloat(submatch(re, text), 64)
		errs = append(errs, err)
		return n
	}
	length := func(re *regexp.Regexp) time.Duration {
		d, err := time.ParseDuration(submatch(re, text))
		errs = append(errs, err)
		return d
	}
	l.requests, l.perSecond = number(wrkRequests), number(wrkRate)
	l.p50, l.p99 = length(wrkP50), length(wrkP99)
	if l.requests == 0 {
		errs = append(errs, errors.New("nothing was answered"))
	}
	if err := errors.Join(errs...); err != nil {
		return l, fmt.Errorf("%w in:\n%s", err, text)
	}
	return l, nil
}

func submatch(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
