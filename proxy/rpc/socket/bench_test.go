package socket_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/proxy/rpc/socket"
)

// BenchmarkEvent tells 1,000 clients of an event of 2 KB; an op is one of them.
func BenchmarkEvent(b *testing.B) {
	const clients = 1000
	chain, feed := newDriven()
	server := httptest.NewServer(socket.New(socket.Options{Feed: feed, Methods: methods(nil)}))
	defer server.Close()
	var told sync.WaitGroup
	for range clients {
		conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		listen(b, conn, &told)
	}
	defer run(feed)()
	chain.next <- "" // it is listened to
	b.ReportAllocs()
	for n := 0; n < b.N; n += clients {
		told.Add(clients)
		chain.next <- strings.Repeat("x", 2000)
		told.Wait()
	}
	b.StopTimer()
}

// listen subscribes to a kind of event, and counts what comes.
func listen(b *testing.B, conn net.Conn, told *sync.WaitGroup) {
	b.Helper()
	const call = `{"id":1,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	_, _ = conn.Write(append([]byte{0x81, 0x80 | byte(len(call)), 0, 0, 0, 0}, call...)) // masked by zeros
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	head := make([]byte, 4<<10)
	for n := 0; !bytes.HasSuffix(head[:n], answer); {
		more, err := conn.Read(head[n:])
		if err != nil {
			b.Fatal(err)
		}
		n += more
	}
	go func() {
		frame := make([]byte, 4<<10)
		for {
			if _, err := io.ReadFull(conn, frame[:4]); err != nil {
				return
			}
			if _, err := io.ReadFull(conn, frame[:int(frame[2])<<8|int(frame[3])]); err != nil {
				return
			}
			told.Done()
		}
	}()
}
