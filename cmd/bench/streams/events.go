package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Events has clients of the RPC's WebSocket read, on every event, at once what it tells
// of, through each interface, while the nodes are restarted in turns.
func Events(ctx context.Context, r *rig.Rig) (failure error) {
	sockets, pairs := 100, int64(100_000)
	if r.Short {
		sockets, pairs = 4, 400
	}
	defer func(d devnet.Dialect) { r.Dialect = d }(r.Dialect)
	r.Dialect = devnet.Cosmos // Story's simulated nodes find no transactions
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: 400 * time.Millisecond})
	if err != nil {
		return err
	}
	other, err := d.AddNode(devnet.NodeOptions{})
	if err != nil {
		return err
	}
	rpc, listen := rig.FreeAddr(), rig.FreeAddr()
	serving := rig.Before(d, "--node", other.RESTURL(), "--comet", other.CometURL(), "--rpc-listen", rpc,
		"--grpc", d.Node().GRPCAddr(), "--grpc", other.GRPCAddr(), "--grpc-listen", listen)
	serving.Env = roomForStreams
	t, err := r.Replica(ctx, serving)
	if err != nil {
		return err
	}
	defer t.Stop()
	calls, err := grpc.NewClient(listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = calls.Close() }()
	var rows [][]string
	for _, nodes := range [][]*devnet.Node{nil, {d.Node(), other}} {
		c := &counted{most: pairs / 2, enough: make(chan struct{})}
		restarts, err := c.attend(ctx, sockets, witness{counted: c, rpc: "http://" + rpc, rest: t.URL, grpc: calls}, nodes)
		if err != nil {
			return err
		}
		rows = append(rows, figures.Row(restarts, int(c.pairs.Load()), int(c.misses.Load()), int(c.stale.Load()), int(c.twice.Load()), int(c.missing.Load()),
			figures.Median(c.took), figures.Quantile(c.took, 0.99), figures.Quantile(c.took, 1)))
		if c.misses.Load()+c.twice.Load()+c.missing.Load() > 0 || nodes == nil && c.stale.Load() > 0 {
			failure = errors.New("an event told of what could not be read, or came twice or not at all. " + c.example)
		}
	}
	r.Table(fmt.Sprintf("reads at once after an event, through each interface, by %d clients", sockets),
		[]string{"restarts of a node", "pairs", "missed", "stale, and marked so", "events twice", "events missing", "p50 ms", "p99 ms", "max ms"}, rows)
	r.Note("The times are those of the reads.")
	return failure
}

// counted is what witnesses have seen.
type counted struct {
	most                          int64 // pairs, after which all is seen
	pairs, misses, twice, missing atomic.Int64
	stale                         atomic.Int64  // misses that are marked so
	enough                        chan struct{} // closed then

	mu      sync.Mutex
	took    []float64 // by the reads, in milliseconds
	example string    // of a miss
}

// attend has witnesses listen until there are enough pairs, while nodes are away in turns, and
// says how often one was.
func (c *counted) attend(ctx context.Context, sockets int, each witness, nodes []*devnet.Node) (restarts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	seeing, end := context.WithCancel(ctx)
	defer end()
	group, seeing := errgroup.WithContext(seeing)
	for i := range sockets {
		w := each
		w.turn = 2 * i
		group.Go(func() error { return w.attend(seeing) })
	}
	for {
		select {
		case <-c.enough:
			end()
			return restarts, group.Wait()
		case <-seeing.Done():
			return restarts, errors.Join(group.Wait(), ctx.Err())
		case <-time.After(5 * time.Second):
			if len(nodes) == 0 {
				continue
			}
			away := nodes[restarts%len(nodes)]
			restarts++
			if err := away.SetFaults(devnet.Fault{Outage: devnet.Refuse}, devnet.Fault{Outage: devnet.Refuse}); err != nil {
				return restarts, err
			}
			rig.Pause(ctx, time.Second)
			if err := away.SetFaults(devnet.Fault{}, devnet.Fault{}); err != nil {
				return restarts, err
			}
		}
	}
}

// pair notes a read after an event; what it should have found, or "" where it did, and
// whether the answer is marked as stale.
func (c *counted) pair(took time.Duration, missed string, marked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, figures.Milliseconds(took))
	switch {
	case missed != "" && marked:
		c.stale.Add(1)
	case missed != "":
		c.misses.Add(1)
		c.example = "A miss: " + missed + "."
	}
	if c.pairs.Add(1) == c.most {
		close(c.enough)
	}
}

// follows notes an event of a kind at a height, of which one comes for each block.
func (c *counted) follows(last *int64, height int64) error {
	switch {
	case height < 1:
		return fmt.Errorf("an event has height %d", height)
	case *last > 0 && height <= *last:
		c.twice.Add(1)
	case *last > 0:
		c.missing.Add(height - *last - 1)
	}
	*last = max(*last, height)
	return nil
}
