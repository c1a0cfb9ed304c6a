// Package streams measures the answers that come by themselves: how long after a
// block they come, what they cost, and what hits lose by them.
package streams

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	streamedBlocks = 10
	streamedPath   = "/distribution/delegators/0xa82f5d1f204b382d90ca549b695aedb7fde14817/rewards" // every block changes it
)

// roomForStreams lifts the limits that keep one client from opening them all.
var roomForStreams = []string{"TIPCACHE_HTTP_MAX_STREAMS=50000", "TIPCACHE_HTTP_CLIENT_STREAMS=50000", "TIPCACHE_HTTP_MAX_CONNECTIONS=50000"}

// replica is one before a chain.
func replica(ctx context.Context, r *rig.Rig, d *devnet.Devnet, flags ...string) (*rig.Replica, error) {
	serving := rig.Before(d, flags...)
	serving.Env = roomForStreams
	return r.Replica(ctx, serving)
}

// A server is a replica before a chain that stands still.
type server struct {
	*rig.Replica
	chain *devnet.Devnet
	empty rig.Usage // while no client has come
}

func start(ctx context.Context, r *rig.Rig, flags ...string) (s server, err error) {
	if s.chain, err = r.Chain(rig.Still); err != nil {
		return s, err
	}
	if s.Replica, err = replica(ctx, r, s.chain, flags...); err == nil {
		s.empty, err = s.Usage()
	}
	return s, err
}

// each is what each of n clients takes, in KiB.
func (s server) each(n int) (float64, error) {
	open, err := s.Usage()
	return float64(open.RSS-s.empty.RSS) / 1024 / float64(n), err
}

// Streams measures the answers that come by themselves.
func Streams(ctx context.Context, r *rig.Rig) error {
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
		[]string{"streams", "bytes an event", "p50 ms", "p99 ms", "max ms", "CPU us an event", "KiB a stream", "node reads a block"}, rows)
	idle, err := idleConnections(ctx, r, counts[len(counts)-1])
	if err != nil {
		return err
	}
	r.Note("A connection that is idle after one answer takes %s KiB (%d of them).", figures.Decimal(idle), counts[len(counts)-1])
	r.Note(whatLate)
	return besideHits(ctx, r, counts[0])
}

const whatLate = "The time is from the moment the node can answer for a block until a client has read the change. Server and clients share the machine."

// idleConnections measures what each of n connections takes after one answer, in KiB.
func idleConnections(ctx context.Context, r *rig.Rig, n int) (float64, error) {
	s, err := start(ctx, r)
	if err != nil {
		return 0, err
	}
	defer s.Stop()
	crowd := clients.NewCrowd(rig.Host(s.URL), n)
	defer crowd.Close()
	if err := crowd.Gather(ctx, "/staking/pool"); err != nil {
		return 0, err
	}
	return s.each(n)
}

// streamed measures n streams of a chain that moves when all have what came before.
func streamed(ctx context.Context, r *rig.Rig, n int) ([]string, error) {
	s, err := start(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	a, end, err := follow(ctx, rig.Host(s.URL), n)
	defer end()
	if err != nil {
		return nil, err
	}
	each, err := s.each(n)
	if err != nil {
		return nil, err
	}
	asked := readsOf(s.chain, streamedPath)
	spent, err := rig.Spent(func() error { return a.advance(ctx, s.chain, streamedBlocks, 0) }, s.Process)
	if err != nil {
		return nil, err
	}
	return a.row([]any{n, a.size}, float64(spent[0].Microseconds())/float64(streamedBlocks*n), each, float64(readsOf(s.chain, streamedPath)-asked)/streamedBlocks), nil
}

// follow opens n streams, and waits until each has its first event.
func follow(ctx context.Context, addr string, n int) (a *arrivals, end func(), err error) {
	ctx, end = context.WithCancel(ctx)
	a = newArrivals(n)
	request := clients.Request("GET", streamedPath, "", "Accept: text/event-stream")
	for range n {
		conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return a, end, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		if _, err := conn.Write(request); err != nil {
			return a, end, err
		}
		go func() {
			had, height := int64(0), int64(0)
			a.fail(events(conn, func(name string, value []byte) error {
				switch name {
				case "id":
					_, _ = fmt.Sscanf(string(value), "%d.", &height)
				case "data":
					a.note(had, height, len("data: ")+len(value)+1)
					had = height
				}
				return nil
			}))
		}()
	}
	return a, end, a.reach(ctx, anyBlock)
}

// events has the fields of a stream's events read until it ends, which is an error.
func events(stream io.Reader, read func(name string, value []byte) error) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 1<<10), 1<<20)
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		if err := read(string(name), value); err != nil {
			return err
		}
	}
	return cmp.Or(lines.Err(), io.EOF)
}

// readsOf is how often a path was read of the node. It is asked for other things as well:
// where a block is late, whether it has come.
func readsOf(d *devnet.Devnet, path string) (reads int64) {
	for _, a := range d.Node().Stats().Asked {
		if a.URI == path {
			reads += a.Count
		}
	}
	return reads
}
