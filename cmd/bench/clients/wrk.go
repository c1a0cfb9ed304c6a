package clients

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
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

// A Loaded server is what wrk saw of it.
type Loaded struct {
	Requests  float64
	PerSecond float64
	P50, P99  time.Duration
}

// Wrk runs the load. An error of a socket or an answer that is not 2xx or 3xx is an error.
func Wrk(ctx context.Context, l Load) (Loaded, error) {
	path, err := rig.WrkTool.Path()
	if err != nil {
		return Loaded{}, err
	}
	args := []string{"-t1", "-c" + strconv.Itoa(l.Connections), fmt.Sprintf("-d%.0fs", l.Length.Seconds()), "--latency"}
	for _, h := range l.Headers {
		args = append(args, "-H", h)
	}
	if l.Script != "" {
		args = append(args, "-s", l.Script)
	}
	out, err := exec.CommandContext(ctx, path, append(args, l.URL)...).CombinedOutput()
	if err != nil {
		return Loaded{}, fmt.Errorf("wrk %s: %w\n%s", l.URL, err, out)
	}
	seen, err := parseWrk(string(out))
	if err != nil {
		return seen, fmt.Errorf("wrk %s: %w", l.URL, err)
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
func parseWrk(text string) (Loaded, error) {
	if m := wrkTrouble.FindStringSubmatch(text); m != nil {
		return Loaded{}, errors.New(m[1])
	}
	var l Loaded
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
	l.Requests, l.PerSecond = number(wrkRequests), number(wrkRate)
	l.P50, l.P99 = length(wrkP50), length(wrkP99)
	if l.Requests == 0 {
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
