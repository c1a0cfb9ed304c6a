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

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// followers read the streams.
type followers struct {
	conns []net.Conn

	mu      sync.Mutex
	reached map[int64]int // how many have an event of a height
	at      []time.Time   // when, since the last call of since
	size    int           // bytes of an event's data
	err     error
}

// anyHeight stands for all heights where events are counted.
const anyHeight = 0

// follow opens n streams of a path.
func follow(ctx context.Context, addr, path string, n int) (*followers, error) {
	f := &followers{reached: map[int64]int{}}
	request := clients.Request("GET", path, "", "Accept: text/event-stream")
	dialer := net.Dialer{Timeout: 10 * time.Second}
	for range n {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			f.conns = append(f.conns, conn)
			_, err = conn.Write(request)
		}
		if err != nil {
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
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = cmp.Or(lines.Err(), io.EOF)
}

func (f *followers) note(height int64, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached[height]++
	f.reached[anyHeight]++
	f.size = size
	f.at = append(f.at, time.Now())
}

// reach waits until there are as many events of the height as streams.
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
		if err == nil && !rig.Pause(ctx, time.Millisecond) {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%d of %d streams have an event of block %d: %w", n, len(f.conns), height, err)
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
