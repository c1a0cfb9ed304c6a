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
func replica(ctx context.Context, r *rig.Rig, d *devnet.Devnet, flags ...string) *rig.Replica {
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

func start(ctx context.Context, r *rig.Rig, flags ...string) (s server) {
	s.chain = r.Chain(rig.Still)
	s.Replica = replica(ctx, r, s.chain, flags...)
	s.empty = rig.Must(s.Usage())
	return s
}

// each is what each of n clients takes, in KiB.
func (s server) each(n int) float64 {
	return float64(rig.Must(s.Usage()).RSS-s.empty.RSS) / 1024 / float64(n)
}

// Streams measures the answers that come by themselves.
func Streams(ctx context.Context, r *rig.Rig) {
	counts := []int{2_000, 10_000}
	if r.Short {
		counts = []int{50}
	}
	var rows [][]string
	for _, n := range counts {
		rows = append(rows, streamed(ctx, r, n))
	}
	r.Table("streams of one answer that every block changes, followed for "+fmt.Sprint(streamedBlocks)+" blocks",
		[]string{"streams", "bytes an event", "p50 ms", "p99 ms", "max ms", "CPU us an event", "KiB a stream", "node reads a block"}, rows)
	most := counts[len(counts)-1]
	r.Note("A connection that is idle after one answer takes %s KiB (%d of them).", figures.Decimal(idleConnections(ctx, r, most)), most)
	r.Note(whatLate)
	besideHits(ctx, r, counts[0])
}

const whatLate = "The time is from the moment the node can answer for a block until a client has read the change. Server and clients share the machine."

// idleConnections measures what each of n connections takes after one answer, in KiB.
func idleConnections(ctx context.Context, r *rig.Rig, n int) float64 {
	s := start(ctx, r)
	defer s.Stop()
	crowd := clients.NewCrowd(rig.Host(s.URL), n)
	defer crowd.Close()
	rig.Check(crowd.Gather(ctx, "/staking/pool"))
	return s.each(n)
}

// streamed measures n streams of a chain that moves when all have what came before.
func streamed(ctx context.Context, r *rig.Rig, n int) []string {
	s := start(ctx, r)
	defer s.Stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := follow(ctx, rig.Host(s.URL), n)
	each, asked := s.each(n), readsOf(s.chain, streamedPath)
	spent := rig.Spent(func() { a.advance(ctx, s.chain, streamedBlocks, 0) }, s.Process)
	return a.row([]any{n, a.size}, float64(spent[0].Microseconds())/float64(streamedBlocks*n), each, float64(readsOf(s.chain, streamedPath)-asked)/streamedBlocks)
}

// follow opens n streams until ctx ends, and waits until each has its first event.
func follow(ctx context.Context, addr string, n int) *arrivals {
	a := newArrivals(n)
	request := clients.Request("GET", streamedPath, "", "Accept: text/event-stream")
	for range n {
		conn := rig.Must((&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr))
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		_ = rig.Must(conn.Write(request))
		go a.read(conn)
	}
	a.reach(ctx, anyBlock)
	return a
}

// read notes the events of a stream until it ends, which is an error.
func (a *arrivals) read(stream io.Reader) {
	had, height := int64(0), int64(0)
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 1<<10), 1<<20)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
			a.note(had, height, len("data: ")+len(data)+1)
			had = height
		} else {
			_, _ = fmt.Sscanf(lines.Text(), "id: %d.", &height)
		}
	}
	a.fail(cmp.Or(lines.Err(), io.EOF))
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
