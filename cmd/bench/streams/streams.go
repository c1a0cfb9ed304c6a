// Package streams measures the answers that come by themselves: how long after a
// block they come, what they cost beside a bare fan-out, and what hits lose by them.
package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Streams is the part about answers that come by themselves.
func Streams() rig.Part {
	return rig.Part{
		Name:  "streams",
		About: "how long after a block its change is with every stream, and what a stream holds",
		Run:   runStreams,
	}
}

const (
	streamedBlocks = 10
	streamedPath   = "/distribution/delegators/0xa82f5d1f204b382d90ca549b695aedb7fde14817/rewards" // every block changes it
)

// roomForStreams lifts the limits that keep one client from opening them all.
var roomForStreams = []string{"TIPCACHE_HTTP_MAX_STREAMS=50000", "TIPCACHE_HTTP_CLIENT_STREAMS=50000", "TIPCACHE_HTTP_MAX_CONNECTIONS=50000"}

func runStreams(ctx context.Context, r *rig.Rig) error {
	counts := []int{2_000, 10_000}
	if r.Short {
		counts = []int{50}
	}
	var rows [][]string
	for _, n := range counts {
		row, err := streamed(ctx, r, n)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	r.Table("streams of one answer that every block changes, followed for "+fmt.Sprint(streamedBlocks)+" blocks",
		[]string{"streams", "bytes an event", "p50 ms", "p99 ms", "max ms", "CPU us an event", "KiB a stream", "node requests a block"}, rows)
	idle, err := idleConnections(ctx, r, counts[len(counts)-1])
	if err != nil {
		return err
	}
	r.Note("A connection that is idle after one answer takes %s KiB (%d of them).", figures.Decimal(idle), counts[len(counts)-1])
	r.Note("The time is from the moment the node can answer for a block until the event is read. Server and clients share the machine.")
	if err := besideFanOut(ctx, r, counts[0]); err != nil {
		return err
	}
	return besideHits(ctx, r, counts[0])
}

// idleConnections measures what each of n connections takes after one answer, in KiB.
func idleConnections(ctx context.Context, r *rig.Rig, n int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := r.Chain(rig.Still)
	if err != nil {
		return 0, err
	}
	t, err := r.Replica(ctx, rig.Serving{Node: d.NodeURL(), Comet: d.CometURL(), Env: roomForStreams})
	if err != nil {
		return 0, err
	}
	defer t.Stop()
	empty, err := t.Usage()
	if err != nil {
		return 0, err
	}
	for range n {
		c := &clients.Conn{Addr: rig.Host(t.URL)}
		defer c.Close()
		if _, err := c.Get(ctx, "/staking/pool"); err != nil {
			return 0, err
		}
	}
	open, err := t.Usage()
	return float64(open.RSS-empty.RSS) / 1024 / float64(n), err
}

// streamed measures n streams.
func streamed(ctx context.Context, r *rig.Rig, n int) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: -1})
	if err != nil {
		return nil, err
	}
	t, err := r.Replica(ctx, rig.Serving{Node: d.NodeURL(), Comet: d.CometURL(), Env: roomForStreams})
	if err != nil {
		return nil, err
	}
	defer t.Stop()
	empty, err := t.Usage()
	if err != nil {
		return nil, err
	}
	followers, err := follow(ctx, rig.Host(t.URL), streamedPath, n)
	if err != nil {
		return nil, err
	}
	defer followers.close()
	if err := followers.reach(ctx, d.Height()); err != nil {
		return nil, err
	}
	open, err := t.Usage()
	if err != nil {
		return nil, err
	}
	asked := d.Node().Stats().Requests
	var took []float64
	for range streamedBlocks {
		began := time.Now()
		d.Advance(1)
		if err := followers.reach(ctx, d.Height()); err != nil {
			return nil, err
		}
		took = append(took, followers.since(began)...)
	}
	end, err := t.Usage()
	if err != nil {
		return nil, err
	}
	events := float64(n * streamedBlocks)
	return []string{
		fmt.Sprint(n), fmt.Sprint(followers.size), figures.Decimal(figures.Median(took)), figures.Decimal(figures.Quantile(took, 0.99)), figures.Decimal(figures.Quantile(took, 1)),
		figures.Decimal(float64((end.CPU - open.CPU).Microseconds()) / events), figures.Decimal(float64(open.RSS-empty.RSS) / 1024 / float64(n)),
		figures.Decimal(float64(d.Node().Stats().Requests-asked) / streamedBlocks),
	}, nil
}
