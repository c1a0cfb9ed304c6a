package socket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/upstream/events"
)

// A silent stream has no message, and counts how many of it are open.
type silent struct{ open *atomic.Int32 }

func (silent) Next(ctx context.Context) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s silent) Close() { s.open.Add(-1) }

// subscribeAndLeave sends some calls right behind each other, and resets the connection.
func subscribeAndLeave(t *testing.T, url string, calls []string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetLinger(0)
	frames := []byte("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if _, err := conn.Write(frames); err != nil {
		t.Error(err)
		return
	}
	head := make([]byte, 4<<10)
	for n := 0; !bytes.Contains(head[:n], []byte("\r\n\r\n")); { // pings may follow
		more, err := conn.Read(head[n:])
		if err != nil {
			t.Error(err)
			return
		}
		n += more
	}
	frames = nil
	for _, call := range calls {
		frames = append(append(frames, 0x81, 0x80|byte(len(call)), 0, 0, 0, 0), call...) // masked by zeros
	}
	_, _ = conn.Write(frames)
}

func TestNoSubscriptionOutlivesItsSocket(t *testing.T) {
	var open atomic.Int32
	feed := events.New(events.Options{Heights: still{}, Nodes: []events.Node{{
		NoEvents:  func() error { return nil },
		Fit:       func() bool { return true },
		Subscribe: func(context.Context, string) (events.Stream, error) { open.Add(1); return silent{&open}, nil },
		Call:      func(context.Context, string, any, int64) (json.RawMessage, error) { return nil, errors.New("no block") },
	}}})
	defer run(feed)()
	metrics := prometheus.NewRegistry()
	_, url := serve(t, socket.Options{Feed: feed, Ping: 100 * time.Microsecond, Registerer: metrics})
	var clients sync.WaitGroup
	for k := range 8 {
		clients.Go(func() {
			for i := range 50 {
				var calls []string
				for n := range 6 {
					calls = append(calls, fmt.Sprintf(`{"id":%d,"method":"subscribe","params":["x.y=%d"]}`, n, (8*i+k)*10+n))
				}
				subscribeAndLeave(t, url, calls)
			}
		})
	}
	clients.Wait()
	end := time.Now().Add(time.Minute)
	for (opened(t, metrics) > 0 || open.Load() > 0) && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	if sockets, streams := opened(t, metrics), open.Load(); sockets != 0 || streams != 0 {
		t.Errorf("sockets = %v, streams at the node = %d after all clients left, want 0 and 0", sockets, streams)
	}
}
