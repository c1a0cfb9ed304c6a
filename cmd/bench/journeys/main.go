// Command journeys lists the functions that run while a request is answered, a block arrives and a replica starts, in the
// order of their first calls, one goroutine after another: what a reader enters to follow one. Goroutines that do only
// what is done by the clock too, and the simulators, do not count.
//
// It fails if a journey enters more functions, or changes package more often, than it may. Its functions must note that
// they are entered; .ci/journeys builds it so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/journeys/entered"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	key         = "journeys"
	startTime   = 5 * time.Second // after which a replica that started does nothing more by itself
	idleTime    = 6 * time.Second // in which everything runs that may run in each repetition by the clock
	repetitions = 5               // of each journey
	aside       = time.Second     // in which what a journey began in the background ends
	blockTime   = time.Minute     // longer than all journeys take
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
	_ = report("a replica starts", walk(entered.During(func() { url = start(ctx, d, ended) }), nil))
	time.Sleep(startTime)
	ask := func(target, body string) { // on a connection of its own
		_ = rig.Must(rig.Request(ctx, url+target, body, "X-Api-Key: "+key, "Content-Type: application/json", "Connection: close"))
	}
	hit := "/staking/validators/" + devnet.PopularValidator
	use := func() { // so that the next block reads the key ahead
		for range 3 {
			ask(hit, "")
		}
	}
	for range 6 {
		d.Advance(1)
		time.Sleep(aside)
		use()
	}
	others := d.Delegators()
	byClock := walk(entered.During(func() { time.Sleep(idleTime) }), nil)
	err := errors.Join(
		journey(tour{198, 51}, byClock, "GET, hit in memory", nil, func(int) { ask(hit, "") }),
		journey(tour{528, 141}, byClock, "GET, miss", nil, func(i int) { ask("/staking/delegations/"+others[i], "") }),
		journey(tour{365, 106}, byClock, "a block arrives", use, func(int) { d.Advance(1) }),
		journey(tour{442, 131}, byClock, "POST of collections with metadata", nil, func(i int) {
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

// A tour counts the functions that a journey enters, and how often the package changes from one to the next.
type tour struct{ functions, changes int }

// journey reports the functions that run in each repetition of do, which prepare precedes unless it is nil. It fails if there is
// more than most.
func journey(most tour, byClock []string, name string, prepare func(), do func(i int)) error {
	var functions []string
	for i := range repetitions {
		if prepare != nil {
			prepare()
		}
		walk := walk(entered.During(func() { do(i); time.Sleep(aside) }), byClock)
		if i == 0 {
			functions = walk
		}
		functions = slices.DeleteFunc(functions, func(f string) bool { return !slices.Contains(walk, f) })
	}
	t := report(name, functions)
	if t.functions == 0 {
		return errors.New("functions do not note that they are entered: run .ci/journeys")
	}
	if t.functions > most.functions || t.changes > most.changes {
		return fmt.Errorf("%s enters %d functions and changes package %d times, want at most %d and %d", name, t.functions, t.changes, most.functions, most.changes)
	}
	return nil
}

// walk returns the functions of all goroutines that do more than what is done by the clock, each once.
func walk(goroutines [][]string, byClock []string) (functions []string) {
	for _, called := range goroutines {
		if !slices.ContainsFunc(called, func(f string) bool { return !slices.Contains(byClock, f) }) {
			continue
		}
		for _, f := range called {
			if !slices.Contains(functions, f) {
				functions = append(functions, f)
			}
		}
	}
	return functions
}

// report prints functions, a line for each file, in their order.
func report(name string, functions []string) tour {
	var lines []string
	packages, changes, lastFile := map[string]bool{}, 0, ""
	for _, function := range functions {
		file, function, _ := strings.Cut(function, " ")
		if file == lastFile {
			lines[len(lines)-1] += " " + function
			continue
		}
		if lastFile != "" && path.Dir(file) != path.Dir(lastFile) {
			changes++
		}
		packages[path.Dir(file)] = true
		lines, lastFile = append(lines, file+": "+function), file
	}
	fmt.Printf("%-36s %3d functions, %d packages, %d changes of package\n    %s\n", //nolint:forbidigo // its output
		name, len(functions), len(packages), changes, strings.Join(lines, "\n    "))
	return tour{len(functions), changes}
}
