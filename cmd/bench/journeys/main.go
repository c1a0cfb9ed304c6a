// Command journeys names the files that run while a request is answered, a block
// arrives and a replica starts: what a reader has to open to follow one. Files that
// also run while nothing is asked, and the simulators, do not count.
//
// It fails if a journey enters more packages or files than it may. It reads its own coverage, so it has to be built
// with it; .ci/journeys does that.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	key         = "journeys"
	startTime   = 5 * time.Second  // after which a replica that started does nothing more by itself
	idleTime    = 45 * time.Second // in which everything runs that runs by the clock
	repetitions = 5                // of each journey
	aside       = time.Second      // in which what a journey began in the background ends
	blockTime   = time.Minute      // longer than all journeys take
)

func main() {
	if err := rig.Try(run); err != nil {
		fmt.Fprintln(os.Stderr, "journeys:", err)
		os.Exit(1)
	}
}

func run() {
	d := rig.Must(demo.Start(devnet.Options{Seed: 1, Collections: 30, Interval: blockTime}))
	defer d.Close()
	ctx, stop := context.WithCancel(context.Background())
	var url string
	ended := make(chan error, 1)
	_ = report("a replica starts", filesIn(blocksOf(func() { url = start(ctx, d, ended) })))
	time.Sleep(startTime)
	ask := func(target, body string) { // on a connection of its own
		_ = rig.Must(rig.Request(ctx, url+target, body, "X-Api-Key: "+key, "Content-Type: application/json", "Connection: close"))
	}
	hit := "/staking/validators/" + devnet.PopularValidator
	for range 6 { // so that the block that a journey is about finds a key in use
		d.Advance(1)
		time.Sleep(aside)
		ask(hit, "")
	}
	others := d.Delegators()
	byClock := blocksOf(func() { time.Sleep(idleTime) })
	err := errors.Join(
		journey(tour{14, 43}, byClock, "GET, hit in memory", func(int) { ask(hit, "") }),
		journey(tour{21, 80}, byClock, "GET, miss", func(i int) { ask("/staking/delegations/"+others[i], "") }),
		journey(tour{9, 20}, byClock, "a block arrives", func(int) { d.Advance(1) }),
		journey(tour{21, 78}, byClock, "POST of collections with metadata", func(i int) {
			ask("/api/v4/collections", fmt.Sprintf(`{"pagination":{"limit":3,"offset":%d}}`, 3*i))
		}),
	)
	stop()
	rig.Check(errors.Join(err, <-ended))
}

// start serves from the simulated chain, without the fast lane.
func start(ctx context.Context, d *devnet.Devnet, ended chan<- error) (url string) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin, cfg.HTTP.FastLane = "127.0.0.1:0", "127.0.0.1:0", false
	cfg.Chain.MaxBlockAge = 3 * blockTime
	redisURL, stopRedis, err := demo.StartRedis()
	rig.Check(err)
	context.AfterFunc(ctx, stopRedis)
	demo.Embed(&cfg, d, redisURL, key)
	s := rig.Must(demo.New(ctx, cfg, d, io.Discard))
	go func() { ended <- s.Run(ctx) }()
	rig.Check(rig.Eventually(ctx, rig.Answers("http://"+s.Addresses.Admin+"/readyz")))
	return "http://" + s.Addresses.REST
}

// A tour counts the packages and files that a journey enters.
type tour struct{ packages, files int }

// journey reports the files that run in each repetition of do, except the files of byClock, which run without requests
// too. It fails if there are more than most.
func journey(most tour, byClock []string, name string, do func(i int)) error {
	runs := map[string]int{}
	for i := range repetitions {
		for _, block := range blocksOf(func() { do(i) }) {
			runs[block]++
		}
	}
	maps.DeleteFunc(runs, func(block string, n int) bool { return n < repetitions || slices.Contains(byClock, block) })
	t := report(name, filesIn(slices.Sorted(maps.Keys(runs))))
	if t.packages > most.packages || t.files > most.files {
		return fmt.Errorf("%s enters %d packages and %d files, want at most %d and %d", name, t.packages, t.files, most.packages, most.files)
	}
	return nil
}

func report(journey string, files []string) tour {
	packages := map[string]bool{}
	for _, file := range files {
		packages[path.Dir(file)] = true
	}
	t := tour{len(packages), len(files)}
	fmt.Printf("%-36s %3d packages %3d files\n    %s\n", journey, t.packages, t.files, strings.Join(files, "\n    ")) //nolint:forbidigo // its output
	return t
}

// filesIn returns the files of blocks of code.
func filesIn(blocks []string) (files []string) {
	for _, block := range blocks {
		file, _, _ := strings.Cut(block, ":")
		files = append(files, file)
	}
	return slices.Compact(files)
}

// blocksOf returns the blocks of the product's code that run during do or shortly after it, as file:range.
func blocksOf(do func()) (blocks []string) {
	dir := rig.Must(os.MkdirTemp("", "journey"))
	defer os.RemoveAll(dir)
	rig.Check(errors.Join(coverage.WriteMetaDir(dir), coverage.ClearCounters()))
	do()
	time.Sleep(aside)
	rig.Check(coverage.WriteCountersDir(dir))
	profile := rig.Must(rig.Output(context.Background(), "", "go", "tool", "covdata", "textfmt", "-i="+dir, "-o=/dev/stdout"))
	for _, block := range ran.FindAllStringSubmatch(profile, -1) {
		if !others.MatchString(block[1]) {
			blocks = append(blocks, block[1])
		}
	}
	slices.Sort(blocks)
	return slices.Compact(blocks)
}

var (
	ran    = regexp.MustCompile(`(?m)^github\.com/tipcache/tipcache/(\S+\.go:\S+) \d+ [1-9]\d*$`) // a block of a coverage profile
	others = regexp.MustCompile(`^(upstream/devnet|cmd/tipcache/demo|cmd/bench)/`)
)
