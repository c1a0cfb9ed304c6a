package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
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

const streamedBlocks = 10

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
	return nil
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
		c := &clients.Conn{Addr: strings.TrimPrefix(t.URL, "http://")}
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
	const path = "/distribution/delegators/0xa82f5d1f204b382d90ca549b695aedb7fde14817/rewards"
	followers, err := follow(ctx, strings.TrimPrefix(t.URL, "http://"), path, n)
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

// followers read the streams.
type followers struct {
	conns []net.Conn
	size  int // bytes of an event's data

	mu      sync.Mutex
	reached map[int64]int // how many have an event of a height
	at      []time.Time   // when, since the last call of since
	news    chan struct{}
	err     error
}

// follow opens n streams of a path.
func follow(ctx context.Context, addr, path string, n int) (*followers, error) {
	f := &followers{reached: map[int64]int{}, news: make(chan struct{}, 1)}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	for range n {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			f.close()
			return nil, err
		}
		f.conns = append(f.conns, conn)
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
			f.close()
			return nil, err
		}
		go f.read(conn)
	}
	return f, nil
}

// read notes the events of a stream until it ends.
func (f *followers) read(conn net.Conn) {
	lines := bufio.NewReaderSize(conn, 1<<10)
	var height int64
	for {
		line, err := lines.ReadSlice('\n')
		size := len(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			var more []byte
			more, err = lines.ReadSlice('\n')
			size += len(more)
		}
		if err != nil {
			f.fail(err)
			return
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			_, _ = fmt.Sscanf(string(id), "%d.", &height)
		} else if bytes.HasPrefix(line, []byte("data: ")) || height > 0 && size > 1<<10 {
			f.note(height, size)
		}
	}
}

func (f *followers) note(height int64, size int) {
	f.mu.Lock()
	f.reached[height]++
	f.size = size
	f.at = append(f.at, time.Now())
	f.mu.Unlock()
	f.tell()
}

func (f *followers) fail(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	f.tell()
}

func (f *followers) tell() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// reach waits until every stream has an event of the height.
func (f *followers) reach(ctx context.Context, height int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		f.mu.Lock()
		n, err := f.reached[height], f.err
		f.mu.Unlock()
		if n >= len(f.conns) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a stream ended: %w", err)
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d streams have block %d: %w", n, len(f.conns), height, ctx.Err())
		}
	}
}

// since gives the times between a moment and the events that came after it, in milliseconds.
func (f *followers) since(began time.Time) (all []float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.at {
		if at.After(began) {
			all = append(all, figures.Milliseconds(at.Sub(began)))
		}
	}
	f.at = f.at[:0]
	return all
}

func (f *followers) close() {
	for _, conn := range f.conns {
		_ = conn.Close()
	}
}
