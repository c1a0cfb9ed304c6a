// Command bench measures tipcache beside its peers and alone: requests per
// second, CPU per request and latency, what a node is asked, how old answers
// are, and what it costs to hold many entries.
//
//	deploy/bench/run
//	deploy/bench/run -markdown peers herd
//	deploy/bench/run -short
//
// It starts everything it needs on free ports of 127.0.0.1, from the tools on
// the PATH, and ends all of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A part is one of the benchmark's parts.
type part struct {
	name  string
	about string
	needs []tool // what must be on the PATH
	run   func(ctx context.Context, b *bench) error
}

func parts() []part {
	return []part{
		peersPart(),
		herdPart(),
		freshnessPart(),
		growthPart(),
		collectionsPart(),
		churnPart(),
		indexPart(),
		startPart(),
		redisPart(),
	}
}

// bench is what the parts share.
type bench struct {
	dir         string // temporary, removed at the end
	shm         string // the same in memory where there is /dev/shm
	bin         string // the built tipcache
	out         *report
	rounds      int           // of each measurement
	seconds     time.Duration // of one run of wrk
	connections []int         // of wrk, one series each
	only        string        // pattern of the cases of peers; "" is all
	churnFor    time.Duration // length of the part churn
	short       bool          // see that everything works: figures mean nothing

	mu        sync.Mutex
	processes []*process
}

// errUsage is what ends the program with status 2.
var errUsage = errors.New("usage")

func main() {
	if len(os.Args) > 1 && os.Args[1] == bareCommand {
		exit(runBare(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, os.Args[1:]))
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	b := &bench{}
	chosen, err := b.parse(args)
	if err != nil {
		return err
	}
	if err := lacking(chosen); err != nil {
		return err
	}
	defer b.close()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	b.out.note("%s", machine(ctx, chosen))
	for _, p := range chosen {
		if err := b.runPart(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// prepare makes the directories and builds tipcache.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "tipcache-bench-"); err != nil {
		return err
	}
	if b.shm, err = os.MkdirTemp("/dev/shm", "tipcache-bench-"); err != nil {
		b.shm = b.dir
	}
	if b.bin != "" {
		b.bin, err = filepath.Abs(b.bin)
		return err
	}
	b.bin = filepath.Join(b.dir, "tipcache")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.bin, "github.com/tipcache/tipcache/cmd/tipcache")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build tipcache: %w\n%s", err, out)
	}
	return nil
}

// runPart ends all that the part has started when it returns.
func (b *bench) runPart(ctx context.Context, p part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer b.stopAll()
	defer cancel()
	return p.run(ctx, b)
}

func (b *bench) close() {
	b.stopAll()
	_ = os.RemoveAll(b.dir)
	_ = os.RemoveAll(b.shm)
}
