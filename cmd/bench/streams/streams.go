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

// limits allow one client to open all streams.
var limits = []string{"TIPCACHE_HTTP_MAX_STREAMS=50000", "TIPCACHE_HTTP_CLIENT_STREAMS=50000", "TIPCACHE_HTTP_MAX_CONNECTIONS=50000"}

// Streams measures event streams.
func Streams(ctx context.Context, r *rig.Rig) {
	var rows [][]string
	for _, n := range rig.Sized(r, []int{2_000, 10_000}, []int{50}) {
		rows = append(rows, streamed(ctx, r, n))
	}
	r.Table("streams of one answer that every block changes, followed for "+fmt.Sprint(streamedBlocks)+" blocks",
		[]string{"streams", "p50 ms", "p99 ms", "CPU us per event", "KiB per stream"}, rows)
	r.Note("The time is from the moment the node can answer for a block until a client has read the change. Server and clients share the machine.")
}

// streamed measures n streams. The chain advances once all streams have received the previous block.
func streamed(ctx context.Context, r *rig.Rig, n int) []string {
	chain := r.Chain(rig.Still)
	serving := rig.Before(chain)
	serving.Env = limits
	s := r.Replica(ctx, serving)
	defer s.Stop()
	empty := rig.Must(s.Usage()).RSS
	ctx, end := context.WithCancel(ctx)
	defer end()
	f := Follow(ctx, rig.Host(s.URL), chain, n)
	f.Await()
	held := rig.Must(s.Usage()).RSS - empty
	var late []float64 // milliseconds from a block to its event
	spent := rig.Spent(s.Process, func() {
		for range streamedBlocks {
			made := time.Now()
			chain.Advance(1)
			for _, at := range f.Await() {
				late = append(late, figures.Milliseconds(at.Sub(made)))
			}
		}
	})
	return figures.Row(n, figures.Median(late), figures.Quantile(late, 0.99), float64(spent.Microseconds())/float64(streamedBlocks*n), float64(held)/1024/float64(n))
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
				if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
					f.events <- event{height: height, at: time.Now()}
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

// Await waits until every stream has received the newest block, and returns when each received it.
func (f *Followers) Await() (received []time.Time) {
	patience := time.After(time.Minute)
	for len(received) < f.n {
		select {
		case e := <-f.events:
			rig.Check(e.err)
			if e.height == f.chain.Height() {
				received = append(received, e.at)
			}
		case <-patience:
			rig.Check(fmt.Errorf("%d of %d streams received block %d", len(received), f.n, f.chain.Height()))
		}
	}
	return received
}
