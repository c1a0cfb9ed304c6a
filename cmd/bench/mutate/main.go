// Command mutate asks of a package's tests whether they notice small faults: it makes
// them one at a time, chosen by a seed, and prints those with which all tests pass.
//
//	go run ./cmd/bench/mutate -seed 1 -n 20 ./cache
//	go run ./cmd/bench/mutate -n 20 ./cache/redis ./cache ./proxy=Redis|Replica
//
// The first package is changed. Its own tests run, then for mutants that survive those
// of the packages named after it, or the part of them that a pattern behind "=" matches.
// No file of the repository is touched: each mutant is an overlay of go test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

type options struct {
	seed     uint64
	count    int
	only     string        // files whose name contains it
	limit    time.Duration // of one run of a package's tests
	workers  int
	packages []string
	work     string // a temporary directory
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	fs := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fs.Uint64Var(&o.seed, "seed", 1, "what the choice of mutants follows from")
	fs.IntVar(&o.count, "n", 20, "number of mutants")
	fs.StringVar(&o.only, "files", "", "change only files whose name contains this")
	fs.DurationVar(&o.limit, "timeout", time.Minute, "a run that takes longer has noticed the mutant")
	fs.IntVar(&o.workers, "parallel", 2, "runs at a time")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.packages = fs.Args(); len(o.packages) == 0 || o.count < 1 || o.workers < 1 {
		return errors.New("usage: mutate [flags] PACKAGE [PACKAGE[=PATTERN] ...]")
	}
	if o.work, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	return o.measure(ctx, out)
}

// measure sees that the tests pass without a mutant, and runs each.
func (o options) measure(ctx context.Context, out io.Writer) error {
	files, err := parseFiles(ctx, o.packages[0], o.only)
	if err != nil {
		return err
	}
	if verdict, output := o.judge(ctx, ""); verdict != survived {
		return fmt.Errorf("the tests fail without a mutant:\n%s", output)
	}
	all := candidates(files)
	random := rand.New(rand.NewPCG(o.seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	verdicts := map[string]int{}
	tried := func() int { return verdicts[survived] + verdicts[killed] + verdicts[timedOut] }
	for next := 0; next < len(all) && tried() < o.count && ctx.Err() == nil; {
		some := all[next:min(len(all), next+o.workers, next+o.count-tried())]
		next += len(some)
		for i, verdict := range o.runAll(ctx, some) {
			if verdicts[verdict]++; verdict != broken {
				fmt.Fprintf(out, "%-9s %s\n", verdict, some[i])
			}
		}
	}
	fmt.Fprintf(out, "%s, seed %d: %d of %d candidates tried, %d survived\n", o.packages[0], o.seed, tried(), len(all), verdicts[survived])
	return ctx.Err()
}

// What becomes of a mutant. One that is broken does not compile.
const survived, killed, timedOut, broken = "SURVIVED", "killed", "timed out", "broken"

// runAll runs mutants at the same time.
func (o options) runAll(ctx context.Context, mutants []mutation) []string {
	verdicts := make([]string, len(mutants))
	var all sync.WaitGroup
	for i, m := range mutants {
		all.Go(func() {
			overlay, err := m.overlay(filepath.Join(o.work, fmt.Sprint(i)))
			if verdicts[i] = broken; err == nil {
				verdicts[i], _ = o.judge(ctx, overlay)
			}
		})
	}
	all.Wait()
	return verdicts
}

// judge says whether the tests of any package notice what an overlay changes, "" for nothing.
func (o options) judge(ctx context.Context, overlay string) (verdict, output string) {
	for _, p := range o.packages {
		path, pattern, _ := strings.Cut(p, "=")
		out, err := tool(ctx, "test", "-overlay="+overlay, "-vet=off", "-short", "-failfast", "-run="+pattern, "-timeout="+o.limit.String(), path)
		switch output = string(out); {
		case err == nil:
		case strings.Contains(output, "[build failed]"), ctx.Err() != nil:
			return broken, output
		case strings.Contains(output, "panic: test timed out"):
			return timedOut, output
		default:
			return killed, output
		}
	}
	return survived, output
}

// overlay writes the changed file, and an overlay that names it.
func (m mutation) overlay(name string) (path string, err error) {
	text := string(m.file.text[:m.start]) + m.text + string(m.file.text[m.end:])
	names, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file.path: name + ".go"}})
	return name + ".json", errors.Join(err, os.WriteFile(name+".go", []byte(text), 0o600), os.WriteFile(name+".json", names, 0o600))
}

// tool runs the go command; what it says is in the error, too.
func tool(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return out, err
}
