package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	polledPaths  = 10
	polledBlocks = 10
	polledEvery  = 2300 * time.Millisecond // a block
)

// Polls measures answers that come by polls through one edge: what tipcache is asked, and
// how long after a block its change is with every follower.
func Polls(ctx context.Context, r *rig.Rig) error {
	n := 10_000
	if r.Short {
		n = 100
	}
	var rows [][]string
	for _, name := range edgeNames {
		row, err := polled(ctx, r, name, n)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, row)
		r.Progress("polls: %s", name)
	}
	r.Table(fmt.Sprintf("%d followers of %d answers that every block changes, by polls through one edge, for %d blocks of %v", n, polledPaths, polledBlocks, polledEvery),
		[]string{"edge", "requests a path and block", "p50 ms", "p99 ms", "max ms", "backward", "skipped", "failed", "CPU of tipcache", "of the edge", "of the clients and the node"}, rows)
	r.Note("CPU is in seconds of a core for each second. The time is from the moment the node can answer for a block until a follower has read the answer.")
	return nil
}

// A pollers is the followers, and what they have seen.
type pollers struct {
	mu       sync.Mutex
	made     map[int64]time.Time // blocks, and when the node had them
	reached  map[int64]int       // how many have an answer of a block or a later one
	late     []float64           // milliseconds
	backward int
	skipped  int
	failed   int
	err      error
}

// polled measures n followers through one edge.
func polled(ctx context.Context, r *rig.Rig, name string, n int) ([]string, error) {
	d, t, _, err := fresh(ctx, r)
	if err != nil {
		return nil, err
	}
	defer t.Stop()
	e, err := before(ctx, r, name, t)
	if err != nil {
		return nil, err
	}
	defer e.Stop()
	paths, err := outstanding(ctx, t.URL)
	if err != nil {
		return nil, err
	}
	p := &pollers{made: map[int64]time.Time{}, reached: map[int64]int{}}
	ctx, leave := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	for i := range n {
		all.Go(func() { p.follow(ctx, e.addr, paths[i%len(paths)]) })
	}
	for range 2 { // after the first all wait, after the second at one URL
		if err := p.advance(ctx, d, n); err != nil {
			return nil, err
		}
	}
	p.forget()
	asked, err := polls(ctx, t)
	if err != nil {
		return nil, err
	}
	began, own := time.Now(), ownCPU()
	spent, err := rig.Spent(func() error {
		for range polledBlocks {
			if err := p.advance(ctx, d, n); err != nil {
				return err
			}
		}
		return nil
	}, t.Process, e.Process)
	if err != nil {
		return nil, err
	}
	took, own := time.Since(began).Seconds(), ownCPU()-own
	now, err := polls(ctx, t)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return figures.Row(name, (now-asked)/float64(polledPaths*polledBlocks), figures.Median(p.late), figures.Quantile(p.late, 0.99), figures.Quantile(p.late, 1),
		p.backward, p.skipped, p.failed, spent[0].Seconds()/took, spent[1].Seconds()/took, own.Seconds()/took), nil
}

// polls is how many polls a replica has answered.
func polls(ctx context.Context, t *rig.Replica) (float64, error) {
	s, err := t.Metrics(ctx)
	return s.Sum("tipcache_proxy_requests_total", `route="poll"`), err
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// outstanding are paths of validators whose answers change at every block.
func outstanding(ctx context.Context, url string) ([]string, error) {
	text, err := rig.Get(ctx, fmt.Sprint(url, "/staking/validators?status=bonded&pagination.limit=", polledPaths))
	if err != nil {
		return nil, err
	}
	var list struct {
		Msg struct {
			Validators []struct {
				Address string `json:"operator_address"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	var paths []string
	for _, v := range list.Msg.Validators {
		paths = append(paths, "/distribution/validators/"+v.Address+"/outstanding_rewards")
	}
	if len(paths) != polledPaths {
		return nil, fmt.Errorf("%d validators are bonded", len(paths))
	}
	return paths, nil
}

// advance makes a block and waits until it is with all followers, and for the time of a
// block at least.
func (p *pollers) advance(ctx context.Context, d *devnet.Devnet, n int) error {
	next := time.Now().Add(polledEvery)
	p.mu.Lock()
	p.made[d.Height()+1] = time.Now()
	p.mu.Unlock()
	d.Advance(1)
	for height := d.Height(); ; {
		p.mu.Lock()
		reached, err := p.reached[height], p.err
		p.mu.Unlock()
		switch late := time.Since(next); {
		case err != nil:
			return err
		case reached == n:
			rig.Pause(ctx, -late)
			return ctx.Err()
		case late > time.Minute || !rig.Pause(ctx, 10*time.Millisecond):
			return fmt.Errorf("%d of %d followers have block %d", reached, n, height)
		}
	}
}

// forget begins anew.
func (p *pollers) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late, p.backward, p.skipped, p.failed = nil, 0, 0, 0
}

// follow polls one answer until ctx ends.
func (p *pollers) follow(ctx context.Context, addr, path string) {
	c, next, height := &clients.Conn{Addr: addr}, "?since=0", int64(0)
	defer c.Close()
	for ctx.Err() == nil {
		a, err := c.Get(ctx, path+next)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.fail(err)
			return
		case a.Status >= 300:
			p.fail(nil)
			rig.Pause(ctx, time.Second)
			continue
		case a.Status == 200:
			p.note(height, a.Height())
			height = a.Height()
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(a.Header.Get("Link"), "<"), ">")
		if next == "" {
			p.fail(fmt.Errorf("an answer to a poll without a Link: %d %v", a.Status, a.Header))
			return
		}
	}
}

func (p *pollers) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed++; p.err == nil {
		p.err = err
	}
}

// note takes down that a follower that had the answer of a block has that of another.
func (p *pollers) note(had, height int64) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case height < had:
		p.backward++
	case had > 0 && height > had+1:
		p.skipped++
	}
	for h := had + 1; had > 0 && h <= height; h++ {
		p.reached[h]++
	}
	if had == 0 {
		for h := range p.made {
			if h <= height {
				p.reached[h]++
			}
		}
	} else if made, ok := p.made[height]; ok {
		p.late = append(p.late, figures.Milliseconds(now.Sub(made)))
	}
}
