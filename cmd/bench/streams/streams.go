// Package streams measures event streams: how long after a block events arrive, and what they cost.
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

const streamedBlocks = 10

// ChangingPath is a path whose response changes with every block.
const ChangingPath = "/distribution/delegators/0xa82f5d1f204b382d90ca549b695aedb7fde14817/rewards"

// A server is a replica in front of a chain that makes no blocks by itself. Its limits allow one client to open all
// streams.
type server struct {
	*rig.Replica
	chain *devnet.Devnet
	empty rig.Usage // before the first client
}

func start(ctx context.Context, r *rig.Rig) (s server) {
	s.chain = r.Chain(rig.Still)
	serving := rig.Before(s.chain)
	serving.Env = []string{"TIPCACHE_HTTP_MAX_STREAMS=50000", "TIPCACHE_HTTP_CLIENT_STREAMS=50000", "TIPCACHE_HTTP_MAX_CONNECTIONS=50000"}
	s.Replica = r.Replica(ctx, serving)
	s.empty = rig.Must(s.Usage())
	return s
}

// each returns the memory of each of n clients, in KiB.
func (s server) each(n int) float64 {
	return float64(rig.Must(s.Usage()).RSS-s.empty.RSS) / 1024 / float64(n)
}

// reads returns how often the node was read for ChangingPath. Other reads, such as for a late block, do not count.
func (s server) reads() int64 { return s.chain.Stats().Node.Of(ChangingPath) }

// Streams measures event streams and idle connections.
func Streams(ctx context.Context, r *rig.Rig) {
	counts := rig.Sized(r, []int{2_000, 10_000}, []int{50})
	var rows [][]string
	for _, n := range counts {
		rows = append(rows, streamed(ctx, r, n))
	}
	r.Table("streams of one answer that every block changes, followed for "+fmt.Sprint(streamedBlocks)+" blocks",
		[]string{"streams", "bytes per event", "p50 ms", "p99 ms", "max ms", "CPU us per event", "KiB per stream", "node reads per block"}, rows)
	most := counts[len(counts)-1]
	r.Note("An idle connection takes %s KiB (with %d of them).", figures.Decimal(idleConnections(ctx, r, most)), most)
	r.Note("The time is from the moment the node can answer for a block until a client has read the change. Server and clients share the machine.")
}

// idleConnections measures the memory of each of n connections after one response, in KiB.
func idleConnections(ctx context.Context, r *rig.Rig, n int) float64 {
	s := start(ctx, r)
	defer s.Stop()
	crowd := clients.NewCrowd(rig.Host(s.URL), n)
	defer crowd.Close()
	rig.Check(crowd.Gather(ctx, "/staking/pool"))
	return s.each(n)
}

// streamed measures n streams. The chain advances once all streams have received the previous block.
func streamed(ctx context.Context, r *rig.Rig, n int) []string {
	s := start(ctx, r)
	defer s.Stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	f := Follow(ctx, rig.Host(s.URL), s.chain, n)
	_, size := f.Await()
	each, asked := s.each(n), s.reads()
	var late []float64 // milliseconds from a block to its event
	spent := rig.Spent(func() {
		for range streamedBlocks {
			made := time.Now()
			s.chain.Advance(1)
			received, _ := f.Await()
			for _, at := range received {
				late = append(late, figures.Milliseconds(at.Sub(made)))
			}
		}
	}, s.Process)
	return figures.Row(n, size, figures.Median(late), figures.Quantile(late, 0.99), figures.Quantile(late, 1),
		float64(spent[0].Microseconds())/float64(streamedBlocks*n), each, float64(s.reads()-asked)/streamedBlocks)
}

// Followers are streams of ChangingPath from one server.
type Followers struct {
	chain  *devnet.Devnet
	n      int
	events chan event
}

// An event is one change of a response, or the end of a stream.
type event struct {
	height int64
	at     time.Time
	size   int   // bytes
	err    error // why the stream ended
}

// Follow opens n streams, which end with ctx.
func Follow(ctx context.Context, addr string, chain *devnet.Devnet, n int) *Followers {
	f := &Followers{chain, n, make(chan event, n)}
	for range n {
		conn := rig.Must((&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr))
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		_ = rig.Must(conn.Write(clients.Request("GET", ChangingPath, "", "Accept: text/event-stream")))
		go func() {
			height, lines := int64(0), bufio.NewScanner(conn)
			lines.Buffer(make([]byte, 0, 1<<10), 1<<20)
			for lines.Scan() && ctx.Err() == nil {
				if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
					f.events <- event{height: height, at: time.Now(), size: len("data: ") + len(data) + 1}
				} else {
					_, _ = fmt.Sscanf(lines.Text(), "id: %d.", &height)
				}
			}
			if ctx.Err() == nil {
				f.events <- event{err: cmp.Or(lines.Err(), io.EOF)}
			}
		}()
	}
	return f
}

// Await waits until every stream has received the newest block. It returns when each received it, and the size of one
// event in bytes.
func (f *Followers) Await() (received []time.Time, size int) {
	patience := time.After(time.Minute)
	for len(received) < f.n {
		select {
		case e := <-f.events:
			rig.Check(e.err)
			if e.height == f.chain.Height() {
				received, size = append(received, e.at), e.size
			}
		case <-patience:
			rig.Check(fmt.Errorf("%d of %d streams received block %d", len(received), f.n, f.chain.Height()))
		}
	}
	return received, size
}
