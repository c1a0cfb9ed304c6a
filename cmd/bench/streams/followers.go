package streams

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
)

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
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 1<<10), 1<<20)
	var height int64
	for lines.Scan() {
		if id, ok := bytes.CutPrefix(lines.Bytes(), []byte("id: ")); ok {
			_, _ = fmt.Sscanf(string(id), "%d.", &height)
		} else if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
			f.note(height, len(lines.Bytes())+1)
		}
	}
	f.fail(cmp.Or(lines.Err(), io.EOF))
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
	return f.await(ctx, fmt.Sprintf("block %d", height), func() int { return f.reached[height] })
}

// begun waits until there was an event for every stream.
func (f *followers) begun(ctx context.Context) error {
	return f.await(ctx, "an event", func() int { return len(f.at) })
}

func (f *followers) await(ctx context.Context, what string, count func() int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		f.mu.Lock()
		n, err := count(), f.err
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
			return fmt.Errorf("%d of %d streams have %s: %w", n, len(f.conns), what, ctx.Err())
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
