// Command mutate asks of a package's tests whether they notice small faults: it makes
// them one at a time, chosen by a seed, and prints those with which all tests pass.
//
//	go run ./cmd/bench/mutate -seed 1 -n 20 ./cache
//	go run ./cmd/bench/mutate -n 20 ./cache/redis ./cache ./proxy=Redis|Replica
//
// The first package is changed. Its own tests run, then for mutants that survive those
// of the packages named after it, or the part of them that a pattern behind "=" matches.
// All mutants are compiled at once, each behind a switch, so a mutant costs one run of
// tests and no build. No file of the repository is touched.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

type options struct {
	seed    uint64
	count   int
	only    string        // files whose name contains it
	limit   time.Duration // of one run of a package's tests
	workers int
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

func run(ctx context.Context, args []string, out io.Writer) error {
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
	if fs.NArg() == 0 || o.count < 1 || o.workers < 1 {
		return errors.New("usage: mutate [flags] PACKAGE [PACKAGE[=PATTERN] ...]")
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	return measure(ctx, o, work, fs.Args(), out)
}

// measure builds the mutants, sees that the tests pass without one, and runs each.
func measure(ctx context.Context, o options, work string, packages []string, out io.Writer) error {
	files, err := parseFiles(ctx, packages[0], o.only)
	if err != nil {
		return err
	}
	all := candidates(files)
	random := rand.New(rand.NewPCG(o.seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	suites, mutants, err := build(ctx, work, packages, files, all, o.count)
	if err != nil {
		return err
	}
	for _, s := range suites {
		if noticed, output := s.run(ctx, 0, 4*o.limit); noticed {
			return fmt.Errorf("the tests of %s fail without a mutant:\n%s", s.dir, output)
		}
	}
	survived := runAll(ctx, o, suites, mutants, out)
	fmt.Fprintf(out, "%s, seed %d: %d of %d candidates tried, %d survived\n", packages[0], o.seed, len(mutants), len(all), survived)
	return ctx.Err()
}

func runAll(ctx context.Context, o options, suites []suite, mutants []mutation, out io.Writer) (survived int) {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next = make(chan int)
	)
	for range o.workers {
		wg.Go(func() {
			for i := range next {
				verdict := judge(ctx, o, suites, i+1)
				mu.Lock()
				fmt.Fprintf(out, "%-9s %s\n", verdict, mutants[i])
				if verdict == "SURVIVED" {
					survived++
				}
				mu.Unlock()
			}
		})
	}
	for i := range mutants {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	return survived
}

// judge says whether any suite notices mutant n.
func judge(ctx context.Context, o options, suites []suite, n int) string {
	for _, s := range suites {
		noticed, output := s.run(ctx, n, o.limit)
		switch {
		case ctx.Err() != nil:
			return "stopped"
		case noticed && strings.Contains(output, "panic: test timed out"):
			return "timed out"
		case noticed:
			return "killed"
		}
	}
	return "SURVIVED"
}
