package socket_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A silent stream has no message, and counts how many of it are open.
type silent struct{ open *atomic.Int32 }

func (silent) Next(ctx context.Context) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s silent) Close() { s.open.Add(-1) }

// upgrade opens a WebSocket, whose frames the test reads and writes.
func upgrade(t *testing.T, url string) (net.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")); err != nil {
		return nil, err
	}
	head := make([]byte, 4<<10)
	for n := 0; !bytes.Contains(head[:n], []byte("\r\n\r\n")); { // pings may follow
		more, err := conn.Read(head[n:])
		if err != nil {
			return nil, err
		}
		n += more
	}
	return conn, nil
}

// textFrame is a call of at most 125 bytes, masked by zeros.
func textFrame(call string) []byte {
	return append([]byte{0x81, 0x80 | byte(len(call)), 0, 0, 0, 0}, call...)
}

// subscribeAndLeave sends some calls right behind each other, and resets the connection.
func subscribeAndLeave(t *testing.T, url string, calls []string) {
	t.Helper()
	conn, err := upgrade(t, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetLinger(0)
	var frames []byte
	for _, call := range calls {
		frames = append(frames, textFrame(call)...)
	}
	_, _ = conn.Write(frames)
}

func TestNoSubscriptionOutlivesItsSocket(t *testing.T) {
	var open atomic.Int32
	feed := events.New(events.Options{Heights: still{}, Nodes: func() []events.Node {
		return []events.Node{{
			NoEvents:  func() error { return nil },
			Fit:       func() bool { return true },
			Subscribe: func(context.Context, string) (events.Stream, error) { open.Add(1); return silent{&open}, nil },
			Call:      func(context.Context, string, any, int64) (json.RawMessage, error) { return nil, errors.New("no block") },
		}}
	}})
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
	for (expect.Metric(t, metrics, "tipcache_rpc_sockets") > 0 || open.Load() > 0) && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	if sockets, streams := expect.Metric(t, metrics, "tipcache_rpc_sockets"), open.Load(); sockets != 0 || streams != 0 {
		t.Errorf("sockets = %v, streams at the node = %d after all clients left, want 0 and 0", sockets, streams)
	}
}

func TestNoEventFollowsTheCloseFrame(t *testing.T) {
	chain, feed := newDriven()
	defer run(feed)()
	d, url := serve(t, socket.Options{Feed: feed, Ping: time.Hour})
	conn := expect.Value(upgrade(t, url))(t)
	expect.Value(conn.Write(textFrame(`{"id":7,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`)))(t)
	frames := bufio.NewReader(conn)
	next := func(kind byte) { // both frames are of less than 126 bytes
		t.Helper()
		head := make([]byte, 2)
		if _, err := io.ReadFull(frames, head); err != nil || head[0] != 0x80|kind || head[1] > 125 {
			t.Fatalf("frame = %x, %v; want kind %d", head, err, kind)
		}
		expect.Value(frames.Discard(int(head[1])))(t)
	}
	next(1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		d.Drain(t.Context())
	}()
	next(8)
	for range 50 {
		chain.next <- "x"
	}
	expect.Value(conn.Write([]byte{0x88, 0x80, 0, 0, 0, 0}))(t)
	if rest, _ := io.ReadAll(frames); len(rest) > 0 {
		t.Errorf("%d bytes follow the close frame, want none", len(rest))
	}
	<-drained
}
