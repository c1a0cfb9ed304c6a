package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Events has clients of the RPC's WebSocket read, on every event, at once what it tells
// of, through each interface, while the nodes are restarted in turns.
func Events(ctx context.Context, r *rig.Rig) (failure error) {
	sockets, enough := 100, 100_000
	if r.Short {
		sockets, enough = 4, 400
	}
	defer func(d devnet.Dialect) { r.Dialect = d }(r.Dialect)
	r.Dialect = devnet.Cosmos // Story's simulated nodes find no transactions
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: 400 * time.Millisecond})
	if err != nil {
		return err
	}
	nodes, err := rig.Nodes(d, 2)
	if err != nil {
		return err
	}
	other := nodes[1]
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
	for _, away := range [][]*devnet.Node{nil, nodes} {
		c := &counted{most: enough / 2, enough: make(chan struct{})}
		restarts, err := c.attend(ctx, sockets, witness{counted: c, rpc: "http://" + rpc, rest: t.URL, grpc: calls}, away)
		if err != nil {
			return err
		}
		rows = append(rows, figures.Row(slices.Concat([]any{restarts}, c.Row(pairs, misses, stale, twice, missing), c.Quantiles(0.5, 0.99, 1))...))
		if c.Of(misses, twice, missing) > 0 || away == nil && c.Of(stale) > 0 {
			failure = fmt.Errorf("an event told of what could not be read, or came twice or not at all: %w", c.Wrong())
		}
	}
	r.Table(fmt.Sprintf("reads at once after an event, through each interface, by %d clients", sockets),
		[]string{"restarts of a node", "pairs", "missed", "stale, and marked so", "events twice", "events missing", "p50 ms", "p99 ms", "max ms"}, rows)
	r.Note("The times are those of the reads.")
	return failure
}

// counted is what witnesses have seen.
type counted struct {
	clients.Tally
	most   int           // pairs, after which all is seen
	enough chan struct{} // closed then
}

// The names of the tally. Stale are the misses that are marked so.
const pairs, misses, stale, twice, missing = "pairs", "misses", "stale", "twice", "missing"

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
			if err := rig.Away(ctx, away, time.Second); err != nil {
				return restarts, err
			}
		}
	}
}

// pair notes a read after an event; what it should have found, or "" where it did, and
// whether the answer is marked as stale.
func (c *counted) pair(took time.Duration, missed string, marked bool) {
	c.Took(took)
	switch {
	case missed != "" && marked:
		c.Add(stale, 1)
	case missed != "":
		c.Blame(misses, "%s", missed)
	}
	if c.Add(pairs, 1) == c.most {
		close(c.enough)
	}
}

// follows notes an event of a kind at a height, of which one comes for each block.
func (c *counted) follows(last *int64, height int64) error {
	switch {
	case height < 1:
		return fmt.Errorf("an event has height %d", height)
	case *last > 0 && height <= *last:
		c.Blame(twice, "the events of block %d came again", height)
	case *last > 0 && height > *last+1:
		c.Blame(missing, "the events of block %d came after those of block %d", height, *last)
	}
	*last = max(*last, height)
	return nil
}
