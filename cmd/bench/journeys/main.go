// Command journeys names the files that run while a request is answered, a block
// arrives and a replica starts: what a reader has to open to follow one. Files that
// also run while nothing is asked, and the simulators, do not count.
//
// It reads its own coverage, so it has to be built with it; .ci/journeys does that.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	key         = "journeys"
	startTime   = 5 * time.Second // after which a replica that started does nothing more by itself
	repetitions = 5               // of each journey, each after as long a time in which nothing is asked
	aside       = time.Second     // in which what a journey began in the background ends
	blockTime   = time.Minute     // longer than all journeys take
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "journeys:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	d, err := demo.Start(devnet.Options{Seed: 1, Collections: 30, Interval: blockTime})
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := replica{ended: make(chan error, 1)}
	started, err := filesOf(func() error { return r.start(ctx, d) })
	if err != nil {
		return err
	}
	report("a replica starts", started)
	time.Sleep(startTime)
	err = r.follow(d)
	stop()
	return errors.Join(err, <-r.ended)
}

// follow goes all journeys but the start.
func (r *replica) follow(d *devnet.Devnet) error {
	hit := "/staking/validators/" + devnet.PopularValidator
	for range 6 { // so that the block that a journey is about finds a key in use
		d.Advance(1)
		time.Sleep(aside)
		if err := r.ask(http.MethodGet, hit, ""); err != nil {
			return err
		}
	}
	others := d.Delegators()
	return errors.Join(
		journey("GET, hit in memory", func(int) error { return r.ask(http.MethodGet, hit, "") }),
		journey("GET, miss", func(i int) error { return r.ask(http.MethodGet, "/staking/delegations/"+others[i], "") }),
		journey("a block arrives", func(int) error { d.Advance(1); return nil }),
		journey("POST of collections with metadata", func(i int) error {
			return r.ask(http.MethodPost, "/api/v4/collections", fmt.Sprintf(`{"pagination":{"limit":3,"offset":%d}}`, 3*i))
		}),
	)
}

// A replica serves from the simulated chain, without the fast lane.
type replica struct {
	addr  string
	ended chan error
}

func (r *replica) start(ctx context.Context, d *devnet.Devnet) (err error) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin, cfg.HTTP.FastLane = "127.0.0.1:0", "127.0.0.1:0", false
	cfg.Chain.MaxBlockAge = 3 * blockTime
	demo.Embed(&cfg, d, key)
	s, err := demo.New(ctx, cfg, d, io.Discard)
	if err != nil {
		return err
	}
	r.addr = s.Addr()
	go func() { r.ended <- s.Run(ctx) }()
	return rig.Eventually(ctx, func(ctx context.Context) error {
		_, err := rig.Get(ctx, "http://"+s.AdminAddr()+"/readyz")
		return err
	})
}

// ask comes on a connection of its own.
func (r *replica) ask(method, path, body string) error {
	c := clients.Conn{Addr: r.addr}
	defer c.Close()
	a, err := c.Do(context.Background(), clients.Request(method, path, body, "X-Api-Key: "+key, "Content-Type: application/json"))
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, a.Status, a.Body)
	}
	return err
}

// journey reports the files that run in all its repetitions, but for those that run in most of
// the times between: what runs by the clock runs in some of both.
func journey(name string, do func(i int) error) error {
	runs, idles := map[string]int{}, map[string]int{}
	for i := range repetitions {
		idle, err := filesOf(func() error { return nil })
		if err != nil {
			return err
		}
		files, err := filesOf(func() error { return do(i) })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		count(idles, idle)
		count(runs, files)
	}
	var own []string
	for file, n := range runs {
		if n == repetitions && idles[file] <= repetitions/2 {
			own = append(own, file)
		}
	}
	slices.Sort(own)
	report(name, own)
	return nil
}

func count(times map[string]int, files []string) {
	for _, f := range files {
		times[f]++
	}
}

func report(journey string, files []string) {
	fmt.Printf("%-36s %3d files\n", journey, len(files)) //nolint:forbidigo // its output
	for _, f := range files {
		fmt.Println("   ", f) //nolint:forbidigo // its output
	}
}

// filesOf gives the files of which statements run during do and shortly after it.
func filesOf(do func() error) ([]string, error) {
	dir, err := os.MkdirTemp("", "journey")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(coverage.WriteMetaDir(dir), coverage.ClearCounters(), do()); err != nil {
		return nil, err
	}
	time.Sleep(aside)
	if err := coverage.WriteCountersDir(dir); err != nil {
		return nil, err
	}
	out, err := rig.Output(context.Background(), "", "go", "tool", "covdata", "textfmt", "-i="+dir, "-o=/dev/stdout")
	return filesIn(out), err
}

// filesIn gives the files of a coverage profile in which something ran.
func filesIn(profile string) (files []string) {
	for line := range strings.Lines(profile) {
		file, counts, _ := strings.Cut(strings.TrimSpace(line), ":")
		file = strings.TrimPrefix(file, "github.com/tipcache/tipcache/")
		if ours(file) && !strings.HasSuffix(counts, " 0") {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// ours tells whether a line of a profile is about a file of the product.
func ours(file string) bool {
	for _, other := range []string{"upstream/devnet/", "cmd/tipcache/demo/", "cmd/bench/"} {
		if strings.HasPrefix(file, other) {
			return false
		}
	}
	return strings.HasSuffix(file, ".go")
}
