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
	"maps"
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
	if err := rig.Try(run); err != nil {
		fmt.Fprintln(os.Stderr, "journeys:", err)
		os.Exit(1)
	}
}

func run() {
	d := rig.Must(demo.Start(devnet.Options{Seed: 1, Collections: 30, Interval: blockTime}))
	defer d.Close()
	ctx, stop := context.WithCancel(context.Background())
	r := replica{ended: make(chan error, 1)}
	report("a replica starts", filesOf(func() { r.start(ctx, d) }))
	time.Sleep(startTime)
	r.follow(d)
	stop()
	rig.Check(<-r.ended)
}

// follow goes all journeys but the start.
func (r *replica) follow(d *devnet.Devnet) {
	hit := "/staking/validators/" + devnet.PopularValidator
	for range 6 { // so that the block that a journey is about finds a key in use
		d.Advance(1)
		time.Sleep(aside)
		r.ask(http.MethodGet, hit, "")
	}
	others := d.Delegators()
	journey("GET, hit in memory", func(int) { r.ask(http.MethodGet, hit, "") })
	journey("GET, miss", func(i int) { r.ask(http.MethodGet, "/staking/delegations/"+others[i], "") })
	journey("a block arrives", func(int) { d.Advance(1) })
	journey("POST of collections with metadata", func(i int) {
		r.ask(http.MethodPost, "/api/v4/collections", fmt.Sprintf(`{"pagination":{"limit":3,"offset":%d}}`, 3*i))
	})
}

// A replica serves from the simulated chain, without the fast lane.
type replica struct {
	addr  string
	ended chan error
}

func (r *replica) start(ctx context.Context, d *devnet.Devnet) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin, cfg.HTTP.FastLane = "127.0.0.1:0", "127.0.0.1:0", false
	cfg.Chain.MaxBlockAge = 3 * blockTime
	demo.Embed(&cfg, d, key)
	s := rig.Must(demo.New(ctx, cfg, d, io.Discard))
	r.addr = s.Addr()
	go func() { r.ended <- s.Run(ctx) }()
	rig.Check(rig.Eventually(ctx, func(ctx context.Context) error {
		_, err := rig.Get(ctx, "http://"+s.AdminAddr()+"/readyz")
		return err
	}))
}

// ask comes on a connection of its own.
func (r *replica) ask(method, path, body string) {
	c := clients.Conn{Addr: r.addr}
	defer c.Close()
	a := rig.Must(c.Do(context.Background(), clients.Request(method, path, body, "X-Api-Key: "+key, "Content-Type: application/json")))
	if a.Status != http.StatusOK {
		rig.Check(fmt.Errorf("%s: %d %s", path, a.Status, a.Body))
	}
}

// journey reports the files that run in all its repetitions, but for those that run in most of
// the times between: what runs by the clock runs in some of both.
func journey(name string, do func(i int)) {
	runs, idles := map[string]int{}, map[string]int{}
	for i := range repetitions {
		count(idles, filesOf(func() {}))
		count(runs, filesOf(func() { do(i) }))
	}
	maps.DeleteFunc(runs, func(file string, n int) bool { return n < repetitions || idles[file] > repetitions/2 })
	report(name, slices.Sorted(maps.Keys(runs)))
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
func filesOf(do func()) []string {
	dir := rig.Must(os.MkdirTemp("", "journey"))
	defer os.RemoveAll(dir)
	rig.Check(errors.Join(coverage.WriteMetaDir(dir), coverage.ClearCounters()))
	do()
	time.Sleep(aside)
	rig.Check(coverage.WriteCountersDir(dir))
	return filesIn(rig.Must(rig.Output(context.Background(), "", "go", "tool", "covdata", "textfmt", "-i="+dir, "-o=/dev/stdout")))
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
