package socket_test

import (
	"fmt"
	"testing"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestShortMemoryClosesTheSocketWithTheMostSubscriptions(t *testing.T) {
	memory := account.New(2<<20, nil) // 512 KiB for events
	feed := events.New(events.Options{Heights: still{}, Nodes: func() []events.Node { return nil }, Memory: memory})
	_, url := serve(t, socket.Options{Feed: feed})
	subscribe := func(conn *websocket.Conn, count int) (last string) {
		for i := range count {
			send(t, conn, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"a.b=%d"}}`, i))
			last = receive(t, conn)
		}
		return last
	}
	const accepted = `{"jsonrpc":"2.0","id":1,"result":{}}`
	small, large, refused := dial(t, url), dial(t, url), dial(t, url)
	expect.Equal(t, subscribe(small, 5), accepted, "answer to subscribe")
	expect.Equal(t, subscribe(large, 20), accepted, "answer to subscribe")
	expect.NoError(t, memory.Events().Open("", true).Take(200<<10))
	expect.Equal(t, subscribe(refused, 1), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"there is no memory for another subscription"}}`, "answer to subscribe")
	memory.Reclaim(account.Events, <-memory.Short(account.Events))
	if _, _, err := large.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("the largest connection ended with %v, want status %d", err, websocket.StatusTryAgainLater)
	}
	expect.EventuallyEqual(t, "memory for a subscription", func() string { return subscribe(refused, 1) }, accepted)
	send(t, small, `{"jsonrpc":"2.0","id":1,"method":"unsubscribe_all"}`)
	expect.Equal(t, receive(t, small), accepted, "answer of the small connection")
}
