package streams

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

const (
	polledPaths  = 10
	polledBlocks = 10
	polledEvery  = 2300 * time.Millisecond // a block
)

// Polls measures answers that come by polls through one edge: what tipcache is asked, and
// how long after a block its change is with every follower.
func Polls(ctx context.Context, r *rig.Rig) {
	n := 10_000
	if r.Short {
		n = 100
	}
	var rows [][]string
	for _, e := range edges {
		rows = append(rows, polled(ctx, r, e.name, e.program, e.file, n))
		r.Progress("polls: %s", e.name)
	}
	r.Table(fmt.Sprintf("%d followers of %d answers that every block changes, by polls through one edge, for %d blocks of %v", n, polledPaths, polledBlocks, polledEvery),
		[]string{"edge", "requests a path and block", "p50 ms", "p99 ms", "max ms", "backward", "skipped", "failed", "CPU of tipcache", "of the edge", "of the clients and the node"}, rows)
	r.Note("CPU is in seconds of a core for each second. %s", whatLate)
}

// polled measures n followers through one edge.
func polled(ctx context.Context, r *rig.Rig, name, program, file string, n int) []string {
	s := start(ctx, r)
	defer s.Stop()
	e := before(ctx, r, program, file, s.Replica)
	defer e.Stop()
	paths, a := outstanding(ctx, s.URL), newArrivals(n)
	ctx, leave := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	for i := range n {
		all.Go(func() { a.poll(ctx, e.Addr, paths[i%len(paths)]) })
	}
	a.advance(ctx, s.chain, 2, polledEvery) // after the first all wait, after the second at one URL
	a.forget()
	asked, began, own := polls(ctx, s.Replica), time.Now(), ownCPU()
	spent := rig.Spent(func() { a.advance(ctx, s.chain, polledBlocks, polledEvery) }, s.Process, e.Process)
	took, own := time.Since(began).Seconds(), ownCPU()-own
	return a.row([]any{name, (polls(ctx, s.Replica) - asked) / float64(polledPaths*polledBlocks)}, a.backward, a.skipped, a.failed,
		spent[0].Seconds()/took, spent[1].Seconds()/took, own.Seconds()/took)
}

// polls is how many polls a replica has answered.
func polls(ctx context.Context, t *rig.Replica) float64 {
	return rig.Must(t.Metrics(ctx)).Sum("tipcache_proxy_requests_total", `route="poll"`)
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// outstanding are paths of validators whose answers change at every block.
func outstanding(ctx context.Context, url string) (paths []string) {
	text := rig.Must(rig.Get(ctx, fmt.Sprint(url, "/staking/validators?status=bonded&pagination.limit=", polledPaths)))
	for _, operator := range gjson.Get(text, "msg.validators.#.operator_address").Array() {
		paths = append(paths, "/distribution/validators/"+operator.String()+"/outstanding_rewards")
	}
	if len(paths) != polledPaths {
		rig.Check(fmt.Errorf("%d validators are bonded", len(paths)))
	}
	return paths
}

// poll polls one answer until ctx ends.
func (a *arrivals) poll(ctx context.Context, addr, path string) {
	c, next, height := &clients.Conn{Addr: addr}, "?since=0", int64(0)
	defer c.Close()
	for ctx.Err() == nil {
		r, err := c.Get(ctx, path+next)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.fail(err)
			return
		case r.Status >= 300:
			a.fail(nil)
			rig.Pause(ctx, time.Second)
			continue
		case r.Status == 200:
			a.note(height, r.Height(), len(r.Body))
			height = r.Height()
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("Link"), "<"), ">")
		if next == "" {
			a.fail(fmt.Errorf("an answer to a poll without a Link: %d %v", r.Status, r.Header))
			return
		}
	}
}
