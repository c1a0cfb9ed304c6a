package socket_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// A silentStream delivers no messages. open counts the open ones.
type silentStream struct{ open *atomic.Int32 }

func (silentStream) Next(ctx context.Context) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s silentStream) Close() { s.open.Add(-1) }

// upgrade opens a WebSocket and returns its connection, on which the test reads and writes frames.
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

// textFrame returns the frame of a call of at most 125 bytes, with a mask of zeros.
func textFrame(call string) []byte {
	return append([]byte{0x81, 0x80 | byte(len(call)), 0, 0, 0, 0}, call...)
}

// subscribeAndLeave sends calls at once and resets the connection.
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
	feed := newFeed(still{}, func() events.Stream {
		open.Add(1)
		return silentStream{&open}
	})
	run(t, feed)
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
	expect.EventuallyEqual(t, "end of all sockets", func() float64 { return expect.Metric(t, metrics, "tipcache_rpc_sockets") }, 0)
	expect.EventuallyEqual(t, "end of all streams of the node", open.Load, 0)
}

func TestNoEventFollowsTheCloseFrame(t *testing.T) {
	chain, feed := newDriven()
	run(t, feed)
	d, url := serve(t, socket.Options{Feed: feed, Ping: time.Hour})
	conn := expect.Value(upgrade(t, url))(t)
	expect.Value(conn.Write(textFrame(`{"id":7,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`)))(t)
	frames := bufio.NewReader(conn)
	skipFrame := func(kind byte) { // of less than 126 bytes
		t.Helper()
		head := make([]byte, 2)
		if _, err := io.ReadFull(frames, head); err != nil || head[0] != 0x80|kind || head[1] > 125 {
			t.Fatalf("frame = %x, %v; want kind %d", head, err, kind)
		}
		expect.Value(frames.Discard(int(head[1])))(t)
	}
	skipFrame(1)
	var drain sync.WaitGroup
	drain.Go(func() { d.Drain(t.Context()) })
	skipFrame(8)
	for range 50 {
		chain.next <- "x"
	}
	expect.Value(conn.Write([]byte{0x88, 0x80, 0, 0, 0, 0}))(t)
	if rest, _ := io.ReadAll(frames); len(rest) > 0 {
		t.Errorf("%d bytes follow the close frame, want none", len(rest))
	}
	drain.Wait()
}
